// A wide table in Arrow's format (docs/api.md, "Tables in Arrow's format"): a column of times, and one for each series.

import { tableFromIPC } from "@uwdata/flechette";
import { type Columns, EMPTY } from "./columns";

export class WideTable {
  readonly #table;
  /** Seconds, ascending: those of any series. */
  readonly #times: number[];

  constructor(bytes: ArrayBuffer) {
    this.#table = tableFromIPC(bytes);
    const milliseconds: ArrayLike<number> = this.#table.getChild("timestamp").toArray();
    this.#times = Array.from(milliseconds, (time) => time / 1000);
  }

  /** The points of the series that the server calls so. */
  columns(name: string): Columns {
    const column = this.#table.getChild(name);
    if (!column || column.length === column.nullCount) return EMPTY;
    const found: ArrayLike<number | null> = column.toArray();
    const numbers = Array.from(found, (value) => (Number.isNaN(value) ? null : value));
    if (column.nullCount === 0) return { times: this.#times, values: numbers };
    // A series without a point at another's time has no gap there.
    const out: Columns = { times: [], values: [] };
    for (let at = 0; at < numbers.length; at++) {
      if (found[at] === null) continue;
      out.times.push(this.#times[at] as number);
      out.values.push(numbers[at] as number | null);
    }
    return out;
  }
}
