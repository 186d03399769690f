// Example queries on the store's own metrics.

import { listMetrics } from "../../api/metrics";
import type { Metric, ResourceType } from "../../api/types";
import { useLoaded } from "../../http/loading";
import { mainMethod } from "../../series/aggregation";
import { lookUp } from "../../api/resources";
import { nameOf } from "../../language/operations";

interface Example {
  title: string;
  type: string;
  operations: string;
  by: string;
}

export function Examples({ types, onChoose }: { types: ResourceType[]; onChoose: (example: Omit<Example, "title">) => void }) {
  const { value: examples = [] } = useLoaded(async (signal) => examplesOf((await listMetrics({ limit: 50 }, signal)).items, types), [types]);
  if (examples.length === 0) return null;
  return (
    <section class="examples" aria-label="Examples">
      <h2>For example</h2>
      <ul>
        {examples.map(({ title, ...example }) => (
          <li key={title}>
            <button type="button" onClick={() => onChoose(example)}><span>{title}</span><code>{example.operations}</code></button>
          </li>
        ))}
      </ul>
    </section>
  );
}

async function examplesOf(metrics: Metric[], types: ResourceType[]): Promise<Example[]> {
  const examples: Example[] = [];
  const owned = metrics.find(({ resource_id, name }) => resource_id && name);
  const resource = owned?.resource_id ? await lookUp(owned.resource_id) : null;
  if (owned?.name && resource) {
    const method = mainMethod(owned.archive_policy.aggregation_methods);
    const by = Object.keys(types.find(({ name }) => name === resource.type)?.attributes ?? {})[0] ?? "project_id";
    const metric = `(metric ${nameOf(owned.name)} ${method})`;
    examples.push(
      { title: `Mean of ${owned.name} over all resources of type ${resource.type}, by ${by}`, type: resource.type, operations: `(aggregate mean ${metric})`, by },
      { title: `${owned.name} of each resource, smoothed`, type: resource.type, operations: `(rolling mean 5 ${metric})`, by: "" },
    );
  }
  const alone = metrics.find(({ resource_id, name }) => !resource_id && name);
  if (alone) {
    const metric = `(metric ${alone.id} ${mainMethod(alone.archive_policy.aggregation_methods)})`;
    examples.push(
      { title: `${alone.name ?? ""}, smoothed over 12 points`, type: "", operations: `(rolling mean 12 ${metric})`, by: "" },
      { title: `How fast ${alone.name ?? ""} changes`, type: "", operations: `(rateofchangesec ${metric})`, by: "" },
    );
  }
  return examples;
}
