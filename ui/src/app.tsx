// The page: header, the view in the address, and dialogs over it.

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { loginReason, users } from "./http/session";
import { Gone } from "./parts/gone";
import { Header } from "./parts/header";
import { KeysDialog, useKeys } from "./parts/keys";
import { useAddress } from "./state/address";
import { useCell } from "./state/cell";
import { Chart } from "./views/chart";
import { Login } from "./views/login";
import { Metrics } from "./views/metrics";
import { Query } from "./views/query";
import { Resources } from "./views/resources";
import { Store } from "./views/store";

const VIEWS = new Map<string, () => preact.JSX.Element | null>([
  ["metrics", Metrics],
  ["chart", Chart],
  ["query", Query],
  ["resources", Resources],
  ["store", Store],
]);

function App() {
  const { path } = useAddress();
  const reason = useCell(loginReason);
  const viewers = useCell(users);
  const [isHelping, setHelping] = useState(false);
  useKeys(() => setHelping(true));
  const name = path[0] ?? "metrics";
  const View = VIEWS.get(name);
  useEffect(() => {
    document.title = name === "metrics" ? "gnudi" : `${name} · gnudi`;
  }, [name]);
  return (
    <>
      <Header onHelp={() => setHelping(true)} />
      <Gone />
      <main id="main" tabIndex={-1}>{View ? <View key={viewers} /> : <p class="empty">There is no view “{name}”.</p>}</main>
      {reason !== null && <Login reason={reason} />}
      {isHelping && <KeysDialog onClose={() => setHelping(false)} />}
    </>
  );
}

const place = document.getElementById("app");
if (place) render(<App />, place);
