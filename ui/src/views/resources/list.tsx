// The resources of a type that match a filter, page by page.

import { useEffect, useState } from "preact/hooks";
import { listTypes, nameOf, searchResources } from "../../api/resources";
import { HttpError, explain } from "../../http/errors";
import { useLoaded, usePages } from "../../http/loading";
import * as language from "../../language/filter";
import { mistakeOf } from "../../language/problem";
import { Problem } from "../../parts/problem";
import { ScrollTable } from "../../parts/scroll_table";
import { formatCount, formatTime } from "../../series/format";
import { change, linkTo, useAddress } from "../../state/address";
import { Editor } from "../query/editor";
import { attributesOf, filterOffers } from "../query/offers";

const ATTRIBUTES_SHOWN_MAX = 6;

export function ResourceList({ type: name }: { type: string }) {
  const { params } = useAddress();
  const filter = params.get("filter") ?? "";
  const [draft, setDraft] = useState(filter);
  const { value: types = [], error: typesError } = useLoaded(listTypes, []);
  useEffect(() => setDraft(filter), [filter, name]);
  const { items: resources, marker, error, isLoading, more, retry } = usePages(name, filter, (marker, signal) =>
    searchResources(name, filter.trim() || {}, { marker, details: name === "generic", signal }),
  );
  const type = types.find((one) => one.name === name);
  const run = () => change({ filter: draft.trim() || null });
  const isRefused = error instanceof HttpError && error.status === 400 && draft === filter;
  const shown = Object.keys(type?.attributes ?? {}).slice(0, ATTRIBUTES_SHOWN_MAX);
  return (
    <div class="resources">
      <nav class="types" aria-label="Resource types">
        {types.map((one) => (
          <a key={one.name} href={linkTo(["resources", one.name])} aria-current={one.name === name ? "page" : undefined}>
            {one.name}{one.name === "generic" && <small> all</small>}
          </a>
        ))}
        {typesError && <p class="problem" role="alert">{typesError}</p>}
      </nav>
      <form class="box" onSubmit={(event) => (event.preventDefault(), run())}>
        <Editor id="resource-filter" label={`Filter of ${name}`} rows={1} value={draft} placeholder="all of them; or: project_id = '…' and started_at > '2026-01-01'"
          mistakes={[...language.check(draft, attributesOf(type)), ...(isRefused ? [mistakeOf(explain(error), draft)] : [])]}
          onValue={setDraft} onRun={run} offersAt={(text, place) => filterOffers(text, place, type)} />
        <div class="actions"><button type="submit" class="main">Search</button></div>
      </form>
      {error !== null && !isRefused && <Problem text={explain(error)} onRetry={retry} />}
      <section class="box">
        <h1 aria-live="polite">{isLoading && resources.length === 0 ? name : `${formatCount(resources.length, "resource")}${marker ? " and more" : ""}`}</h1>
        {resources.length > 0 && (
          <ScrollTable label="Resources" head={<><th>Name</th>{name === "generic" && <th>Type</th>}{shown.map((attribute) => <th key={attribute}>{attribute}</th>)}<th>Project</th><th>Since</th><th>Until</th></>}>
            {resources.map((resource) => (
              <tr key={resource.id}>
                <td><a href={linkTo(["resources", resource.type, resource.id])}>{nameOf(resource)}</a></td>
                {name === "generic" && <td>{resource.type}</td>}
                {shown.map((attribute) => <td key={attribute}>{String(resource[attribute] ?? "")}</td>)}
                <td>{resource.project_id ?? ""}</td>
                <td>{formatTime(Date.parse(resource.started_at) / 1000)}</td>
                <td>{resource.ended_at ? formatTime(Date.parse(resource.ended_at) / 1000) : ""}</td>
              </tr>
            ))}
          </ScrollTable>
        )}
        {!isLoading && resources.length === 0 && error === null && <p class="empty">{filter ? "The filter finds none." : `There are no resources of type ${name}.`}</p>}
        {marker && <button type="button" disabled={isLoading} onClick={more}>More</button>}
      </section>
    </div>
  );
}
