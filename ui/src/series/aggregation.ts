// Chooses the aggregates that a chart shows.

/** The default aggregate: the first of these that the policy has. */
const PREFERRED = ["mean", "last", "max", "sum", "median", "min", "first", "count"];

export function mainMethod(methods: string[], wished: string | null = null): string {
  if (wished && methods.includes(wished)) return wished;
  return PREFERRED.find((method) => methods.includes(method)) ?? methods[0] ?? "mean";
}

/** Whether it is a value as measured, and may be that of a counter. Others are changes, sums, numbers of measures or deviations. */
export const isLevel = (method: string): boolean => /^(mean|median|min|max|first|last|\d+(\.\d+)?pct)$/.test(method);

/** Resamples the points of an aggregate: of counts to their sum, of extremes to extremes, of most others to their mean. */
export function resamplingOf(method: string): string {
  const plain = method.replace(/^rate:/, "");
  if (plain === "count" || plain === "increase") return "sum";
  return ["min", "max", "sum", "median"].includes(plain) ? plain : "mean";
}

export interface Band {
  low: string;
  high: string;
  label: string;
}

const percent = (method: string): number => Number(/^(\d+(?:\.\d+)?)pct$/.exec(method)?.[1] ?? NaN);

/** The bands among the stored aggregates: min to max, then percentiles from outer to inner. */
export function bandsOf(methods: string[]): Band[] {
  const bands: Band[] = [];
  if (methods.includes("min") && methods.includes("max")) bands.push({ low: "min", high: "max", label: "min to max" });
  const percents = methods.map(percent).filter((value) => value > 0).sort((a, b) => a - b);
  for (const low of percents) {
    if (low < 50 && percents.includes(100 - low)) {
      bands.push({ low: `${low}pct`, high: `${100 - low}pct`, label: `${low}th to ${100 - low}th percentile` });
    }
  }
  const highest = percents.filter((value) => value > 50).pop();
  if (highest !== undefined && !percents.includes(100 - highest) && methods.includes("median")) {
    bands.push({ low: "median", high: `${highest}pct`, label: `median to ${highest}th percentile` });
  }
  return bands;
}
