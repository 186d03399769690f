// Runs before the main script is loaded: requests the first metrics, which the start view needs.

import { pageQuery } from "./api/metric_list";
import { ACCEPT_JSON, sendEarly } from "./http/early";
import { SENDING, firstIdentity } from "./http/settings";
import { urlOf } from "./http/url";
import { parse } from "./state/hash";

const { path, params } = parse(location.hash);
const who = firstIdentity();
if (who && (path[0] ?? "metrics") === "metrics" && !params.get("mark")) {
  sendEarly(urlOf("v1/metric", pageQuery({ text: params.get("q") ?? "" })), {
    method: "GET",
    headers: { Accept: ACCEPT_JSON, ...who.headers },
    ...SENDING,
  });
}
