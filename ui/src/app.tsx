// The page: header, the view in the address, and dialogs over it.

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { goneSince } from "./http/client";
import { loginReason, users } from "./http/session";
import { Header } from "./parts/header";
import { KeysDialog, useKeys } from "./parts/keys";
import { formatTime } from "./series/format";
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

/** A banner while the server is unreachable; the page keeps its content. */
function Gone() {
  const since = useCell(goneSince);
  return (
    <div class="gone" role="status" aria-live="assertive">
      {since !== null && <p>The server has not answered since {formatTime(since / 1000)}. What you see is what was there before; the page goes on as soon as it answers.</p>}
    </div>
  );
}

const place = document.getElementById("app");
if (place) render(<App />, place);
