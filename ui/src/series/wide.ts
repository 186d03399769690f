// Reads a wide table in Arrow's format (docs/api.md, "Tables in Arrow's format"): a column of times, and one
// per series.

import { tableFromIPC } from "@uwdata/flechette";
import { type Columns, EMPTY } from "./columns";

export class WideTable {
  readonly #table;
  /** Seconds, ascending: the union of all series' times. */
  readonly #times: number[];

  constructor(bytes: ArrayBuffer) {
    this.#table = tableFromIPC(bytes);
    const milliseconds: ArrayLike<number> = this.#table.getChild("timestamp").toArray();
    this.#times = mapped(milliseconds, (time) => time / 1000);
  }

  /** The points of the series with this column name. */
  columns(name: string): Columns {
    const column = this.#table.getChild(name);
    if (!column || column.length === column.nullCount) return EMPTY;
    const found: ArrayLike<number | null> = column.toArray();
    // A chart cannot show NaN and infinities.
    const numbers = mapped(found, (value) => (Number.isFinite(value) ? value : null));
    if (column.nullCount === 0) return { times: this.#times, values: numbers };
    // No point at another series' time is not a gap.
    const out: Columns = { times: [], values: [] };
    for (let at = 0; at < numbers.length; at++) {
      if (found[at] === null) continue;
      out.times.push(this.#times[at] as number);
      out.values.push(numbers[at] as number | null);
    }
    return out;
  }
}

/** `Array.from` with a function takes several times as long. */
function mapped<From, To>(from: ArrayLike<From>, change: (one: From) => To): To[] {
  const to = new Array<To>(from.length);
  for (let at = 0; at < from.length; at++) to[at] = change(from[at] as From);
  return to;
}
