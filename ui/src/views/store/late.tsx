// Metrics with dropped late measures, the most affected first.

import { type Metric } from "../../api/types";
import { get } from "../../http/client";
import { useLoaded } from "../../http/loading";
import { Owner } from "../../parts/owner";
import { ScrollTable } from "../../parts/scroll_table";
import { linkTo } from "../../state/address";

const SHOWN_MAX = 20;
const PATH = `v1/metric?late_dropped=true&sort=late_dropped:desc&limit=${SHOWN_MAX}`;

export function Late() {
  const { value: metrics, error } = useLoaded(async (signal) => (await get<Metric[]>(PATH, { signal })).value.filter(({ late_dropped }) => late_dropped), []);
  return (
    <section class="box" aria-label="Late measures dropped">
      <h2>Late measures dropped <small>the {SHOWN_MAX} metrics that lost most of them</small></h2>
      {error && <p class="note">{error}</p>}
      {metrics && metrics.length > 0 && (
        <MetricTable label="List of metrics with late measures" last="Dropped" rows={metrics.map((metric) => [metric, (metric.late_dropped ?? 0).toLocaleString("en")])} />
      )}
      {metrics?.length === 0 && <p class="note">None.</p>}
    </section>
  );
}

/** Metrics with their resources and policies, and a text of each. */
export function MetricTable({ label, last, rows }: { label: string; last: string; rows: [Metric, string][] }) {
  return (
    <ScrollTable label={label} head={<><th>Metric</th><th>Resource</th><th>Policy</th><th>{last}</th></>}>
      {rows.map(([{ id, name, resource_id, archive_policy }, text]) => (
        <tr key={id}>
          <td><a href={linkTo(["chart"], { m: id })}>{name ?? id}</a></td>
          <td><Owner id={resource_id ?? null} /></td>
          <td>{archive_policy.name}</td>
          <td>{text}</td>
        </tr>
      ))}
    </ScrollTable>
  );
}
