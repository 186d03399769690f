// Completions: operations and aggregates are built in, metrics and attributes come from the server.

import { listMetrics } from "../../api/metrics";
import { searchResources } from "../../api/resources";
import type { ResourceType } from "../../api/types";
import { labelNames, labelValues, metricNames } from "../../api/promql";
import * as filter from "../../language/filter";
import * as operations from "../../language/operations";
import * as promql from "../../language/promql";
import type { Offers } from "./editor";

const NOTES: Record<string, string> = {
  metric: "(metric NAME AGGREGATE)", aggregate: "over all series: (aggregate mean …)", rolling: "(rolling mean WINDOW …)", resample: "(resample mean SECONDS …)",
  rateofchange: "difference of neighbours", rateofchangesec: "difference a second", clip_min: "(clip_min LIMIT …)", clip_max: "(clip_max LIMIT …)",
};

const NAMES_MAX = 50;
const NOTHING: Offers = { from: 0, word: "", all: [] };

export async function operationOffers(text: string, place: number, hasType: boolean): Promise<Offers> {
  const { kind, word, from } = operations.wantedAt(text, place);
  const plain = (names: string[]): Offers => ({ from, word, all: names.map((name) => ({ text: name, ...(NOTES[name] && { note: NOTES[name] }) })) });
  if (kind === "operation") return place === from && !text.slice(0, place).endsWith("(") ? { from, word, all: operations.FORMS.map((name) => ({ text: `(${name} `, note: NOTES[name] ?? "" })) } : plain(operations.OPERATIONS);
  if (kind === "aggregate") return plain([...operations.AGGREGATES, ...operations.AGGREGATES.map((name) => `rate:${name}`)]);
  if (kind === "metric") return metricOffers(word, from, hasType);
  if (kind === "method") return plain(await methodsOf(text));
  return NOTHING;
}

async function metricOffers(word: string, from: number, hasType: boolean): Promise<Offers> {
  const { items: metrics } = await listMetrics({ text: word.replace(/[*?[\]]/g, " "), limit: NAMES_MAX });
  if (!hasType) return { from, word: "", all: metrics.map(({ id, name }) => ({ text: id, note: name ?? "" })) };
  const names = new Set(metrics.filter(({ resource_id }) => resource_id).map(({ name }) => name ?? ""));
  return { from, word, all: [...names].map((name) => ({ text: operations.nameOf(name) })) };
}

/** The aggregates in the policies of the metrics named in the text. */
async function methodsOf(text: string): Promise<string[]> {
  const words = operations.tokensOf(text).filter(({ kind }) => kind === "word").map((token) => token.text);
  const at = words.lastIndexOf("metric");
  const { items: metrics } = await listMetrics({ text: words[at + 1]?.replace(/[*?[\]]/g, " ") ?? "", limit: NAMES_MAX });
  const methods = [...new Set(metrics.flatMap(({ archive_policy }) => archive_policy.aggregation_methods))];
  return methods.length ? methods.sort() : operations.AGGREGATES;
}

const GENERAL_ATTRIBUTES = [
  "id", "original_resource_id", "type", "project_id", "user_id", "creator", "started_at", "ended_at", "revision_start", "revision_end", "lifespan",
  "created_by_user_id", "created_by_project_id",
];

export const attributesOf = (type: ResourceType | undefined): string[] => [...Object.keys(type?.attributes ?? {}).sort(), ...GENERAL_ATTRIBUTES];

const VALUES_MAX = 200;

export async function filterOffers(text: string, place: number, type: ResourceType | undefined): Promise<Offers> {
  const { kind, word, from, attribute } = filter.wantedAt(text, place);
  const plain = (names: string[]): Offers => ({ from, word, all: names.map((name) => ({ text: name })) });
  if (kind === "attribute") return plain([...attributesOf(type), "not"]);
  if (kind === "operator") return plain(filter.OPERATORS);
  if (kind === "joiner") return plain(filter.joiners);
  if (!type || !attribute) return NOTHING;
  const { items: resources } = await searchResources(type.name, {}, { limit: VALUES_MAX });
  const values = new Set(resources.map((resource) => resource[attribute]).filter((value) => typeof value === "string" || typeof value === "number"));
  const texts = [...values].sort().map((value) => (typeof value === "number" ? String(value) : filter.quoted(String(value))));
  return plain(texts.filter((text) => text !== undefined));
}

export async function promqlOffers(text: string, place: number): Promise<Offers> {
  const { kind, word, from, metric, label } = promql.wantedAt(text, place);
  const plain = (names: string[], note?: string) => names.map((name) => ({ text: name, ...(note && { note }) }));
  const offers = (all: Offers["all"]): Offers => ({ from, word, all });
  if (kind === "duration") return offers(plain(promql.DURATIONS));
  if (kind === "label") return offers(plain((await labelNames(metric)).filter((name) => name !== "__name__").map(promql.labelOf)));
  if (kind === "value") return offers(plain((await labelValues(label, metric)).map((value) => promql.within(text[from - 1] as string, value))));
  if (kind === "nothing" || !word) return NOTHING;
  return offers([...plain(promql.AGGREGATORS, "aggregation"), ...plain(promql.FUNCTIONS, "function"), ...plain((await metricNames(word)).map(promql.metricOf))]);
}
