// Requests to this process, by route and status.

import { ScrollTable } from "../../parts/scroll_table";
import type { Sample } from "./exposition";

const ROWS_MAX = 12;

export function Requests({ samples }: { samples: Sample[] }) {
  const rows = samples.filter(({ name }) => name === "gnudi_api_requests_total").sort((a, b) => b.value - a.value);
  return (
    <section class="box" aria-label="Requests">
      <h2>Requests since the start {rows.length > ROWS_MAX && <small>the {ROWS_MAX} most frequent routes and answers</small>}</h2>
      <ScrollTable label="Requests by route" head={<><th>Route</th><th>Answer</th><th class="number">Requests</th></>}>
        {rows.slice(0, ROWS_MAX).map(({ labels, value }) => (
          <tr key={JSON.stringify(labels)}>
            <td><code>{labels["method"]} {labels["route"] || "unknown"}</code></td>
            <td class={/^[45]/.test(labels["status"] ?? "") ? "problem" : ""}>{labels["status"]}</td>
            <td class="number">{value.toLocaleString("en")}</td>
          </tr>
        ))}
      </ScrollTable>
    </section>
  );
}
