// Finds a coarser granularity that has points where the chosen one has none yet.
//
// A policy says how long a granularity is kept, not since when. A metric that was moved to a policy with a finer
// granularity has that one only since the move, and the former ones since before.

import { measuresOf } from "../api/measures";
import type { Grain } from "../api/types";
import { type Columns, EMPTY } from "./columns";
import { beforeFirst, coarserIn, hasPointsIn, resampledTo } from "./grain";
import type { Range } from "./range";

interface Chosen {
  id: string;
  method: string;
  /** Finest first. */
  grains: Grain[];
  /** Seconds; the granularity before it was resampled. */
  grain: number;
  range: Range;
}

interface Farther {
  grain: number;
  columns: Columns;
  /** Where the chosen granularity begins; the end of the range if it has no points there. */
  until: number;
}

/** The finest one with points before the first of these; `null` if there is none, as with a new metric. */
export async function fartherThan(points: Columns, { id, method, grains, grain, range }: Chosen): Promise<Farther | null> {
  const before = beforeFirst(points, range);
  for (const seconds of coarserIn(grains, grain, before)) {
    // The whole range, so that charts share a request.
    const step = resampledTo(seconds, range);
    const found = await measuresOf({ id, methods: [method], grain: seconds, step, from: range.from - step, to: range.to });
    const columns = found[method] ?? EMPTY;
    if (hasPointsIn(columns, step, before)) return { grain: seconds, columns, until: before.to };
  }
  return null;
}
