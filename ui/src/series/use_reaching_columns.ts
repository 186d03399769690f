// Loads a metric's points for a chart, at a granularity that reaches back as far as the stored points do.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Grain } from "../api/types";
import { useChosenRange } from "../state/time";
import { EMPTY } from "./columns";
import { fartherThan } from "./farther";
import { type Loaded, useColumns } from "./use_columns";

interface WantedReaching {
  id: string;
  method: string;
  /** The policy's, finest first. */
  grains: Grain[];
  /** The granularity that fits the range. */
  fitting: number;
  /** Whether the user chose it. */
  isFixed: boolean;
  pastSeconds?: number;
  isWanted?: boolean;
}

interface Reached {
  key: string;
  grain: number;
  until: number;
}

/** `grain` is the one that is asked for: the fitting one, or a coarser one in a range that begins before the fitting one does. */
export function useReachingColumns({ id, method, grains, fitting, isFixed, pastSeconds = 0, isWanted = true }: WantedReaching): { loaded: Loaded; grain: number } {
  const shown = useChosenRange();
  const [reached, setReached] = useState<Reached | null>(null);
  const asked = useRef<string | null>(null);
  const key = `${id}|${method}|${fitting}`;
  // While live, the range leaves the time before the fitting one behind.
  const isFarther = !isFixed && reached !== null && reached.key === key && shown.from - pastSeconds < reached.until;
  const grain = isFarther ? reached.grain : fitting;
  const loaded = useColumns({ id, methods: [method], grain, pastSeconds, isWanted });
  const { found, answered } = loaded;
  useEffect(() => {
    // Once for a range: points that come while live are no older.
    if (isFixed || !isWanted || found === null || answered === null || asked.current === answered) return;
    asked.current = answered;
    const range = { from: loaded.range.from - pastSeconds, to: loaded.range.to - pastSeconds };
    fartherThan(found[method] ?? EMPTY, { id, method, grains, grain, range }).then(
      (farther) => {
        if (farther && asked.current === answered) setReached({ key, grain: farther.grain, until: farther.until });
      },
      () => undefined, // The chart shows what it has.
    );
  }, [found, answered, isFixed, isWanted]);
  return { loaded, grain };
}
