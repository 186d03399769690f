// Repeats what has failed once the server answers again.

import { useRef } from "preact/hooks";
import { useCell } from "../state/cell";
import { returns } from "./client";

/** Changes when the server is back and something had failed: for the dependencies of an effect that sends requests. */
export function useReturn(hasFailed: boolean): number {
  const count = useCell(returns);
  const seen = useRef(count);
  if (hasFailed) seen.current = count;
  return seen.current;
}
