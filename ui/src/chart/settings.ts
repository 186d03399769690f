// The chart settings in the address.

import { useMemo } from "preact/hooks";
import { type Range, momentOf, printMoment, secondsOfShort } from "../series/range";
import { type Changes, useAddress } from "../state/address";

export interface Settings {
  /** The aggregate; `null` for the metric's default. */
  method: string | null;
  /** Seconds; `null` for the default that fits the width. */
  grain: number | null;
  /** `low,high`, "none", or `null` for the method's default. */
  band: string | null;
  /** Also show the range shifted into the past by this many seconds; 0 for none. */
  besideSeconds: number;
  rate: "auto" | "on" | "off";
  mark: Range | null;
  isLogarithmic: boolean;
}

function settingsOf(params: URLSearchParams): Settings {
  const rate = params.get("rate");
  const written = params.get("gran") ?? "";
  const grain = Number(written) || secondsOfShort(written);
  const [from, to] = (params.get("mark") ?? "").split(",").map(momentOf);
  return {
    method: params.get("agg"),
    grain: grain !== null && grain > 0 ? grain : null,
    band: params.get("band"),
    besideSeconds: secondsOfShort(params.get("beside") ?? "") ?? 0,
    rate: rate === "on" || rate === "off" ? rate : "auto",
    mark: from != null && to != null && to > from ? { from, to } : null,
    isLogarithmic: params.get("scale") === "log",
  };
}

export function useSettings(): Settings {
  const { params } = useAddress();
  const key = ["agg", "gran", "band", "beside", "rate", "mark", "scale"].map((name) => params.get(name)).join("|");
  return useMemo(() => settingsOf(params), [key]);
}

export const markChange = (mark: Range | null): Changes => ({
  mark: mark && `${printMoment(mark.from)},${printMoment(mark.to)}`,
});
