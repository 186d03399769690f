// A virtual grid of small charts: only visible rows are rendered, so it can hold any number.

import { useCallback, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Metric } from "../../api/types";
import type { Settings } from "../../chart/settings";
import { formatCount } from "../../series/format";
import { memo } from "../../state/memo";
import { nextTask } from "../../state/task";
import { CARD_HEIGHT, Card } from "./card";
import { type Row, rowsOf, sectionsOf } from "./groups";

const CARD_WIDTH_MIN = 292;
const GAP = 12;
const HEADING_HEIGHT = 44;
/** Rows within this distance of the screen are rendered in advance. */
const AHEAD_PX = 300;

/** How many cards get their points before the others are rendered. */
const CARDS_FIRST = 8;
/** How long the others wait for that at most. */
const FIRST_WAIT_MS = 100;

const MemoCard = memo(Card);

const heightOf = (row: Row): number => (row.kind === "heading" ? HEADING_HEIGHT : CARD_HEIGHT + GAP);

interface GridProps {
  metrics: Metric[];
  settings: Settings;
  isMarking: boolean;
  hasSections?: boolean;
  noteOf?: (metric: Metric) => string | null;
  /** Called when the end becomes visible. */
  onEnd?: () => void;
}

export function Grid({ metrics, settings, isMarking, hasSections = true, noteOf, onEnd }: GridProps) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [sight, setSight] = useState({ top: 0, bottom: window.innerHeight });
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set());
  const columns = Math.max(1, Math.floor((width + GAP) / (CARD_WIDTH_MIN + GAP)));
  const rows = useMemo(() => {
    if (!hasSections) return rowsOf([{ name: "", metrics }], columns, () => false).slice(1);
    return rowsOf(sectionsOf(metrics), columns, (name) => folded.has(name));
  }, [metrics, columns, folded, hasSections]);
  const tops = useMemo(() => {
    let top = 0;
    const all = rows.map((row) => (top += heightOf(row)) - heightOf(row));
    return { all, height: top };
  }, [rows]);

  useLayoutEffect(() => {
    const look = () => {
      const place = box.current?.getBoundingClientRect();
      if (!place) return;
      setWidth(place.width);
      const next = { top: -place.top, bottom: window.innerHeight - place.top };
      setSight((before) => (Math.abs(before.top - next.top) < 40 && Math.abs(before.bottom - next.bottom) < 40 ? before : next));
    };
    look();
    const observer = new ResizeObserver(look);
    if (box.current) observer.observe(box.current);
    window.addEventListener("scroll", look, { passive: true });
    window.addEventListener("resize", look);
    return () => {
      observer.disconnect();
      window.removeEventListener("scroll", look);
      window.removeEventListener("resize", look);
    };
  }, []);

  // On whole pixels: a canvas between pixels is blurred, and slower to draw.
  const leftOf = (column: number) => Math.round((column * (width + GAP)) / columns);
  const widthOf = (column: number) => leftOf(column + 1) - GAP - leftOf(column);
  const isSeen = (at: number) => {
    const top = tops.all[at] as number;
    return top + heightOf(rows[at] as Row) > sight.top - AHEAD_PX && top < sight.bottom + AHEAD_PX;
  };
  let seen = 0;
  const [cardsMax, setCardsMax] = useState(CARDS_FIRST);
  const shown = rows.map((row, at) => {
    if (width === 0 || !isSeen(at)) return false;
    if (row.kind === "cards") seen += row.metrics.length;
    return seen <= cardsMax;
  });
  const isMore = seen > cardsMax;
  const showMore = useCallback(() => void nextTask().then(() => setCardsMax(Infinity)), []);
  useLayoutEffect(() => {
    if (!isMore) return;
    const timer = window.setTimeout(showMore, FIRST_WAIT_MS);
    return () => window.clearTimeout(timer);
  }, [isMore]);

  const isAtEnd = sight.bottom + AHEAD_PX >= tops.height;
  useLayoutEffect(() => {
    if (isAtEnd && width > 0 && !isMore) onEnd?.();
  }, [isAtEnd, metrics.length, width > 0, isMore]);

  const toggle = (name: string) => {
    const next = new Set(folded);
    if (!next.delete(name)) next.add(name);
    setFolded(next);
  };
  return (
    <div class="grid" ref={box} style={{ height: `${tops.height}px` }}>
      {rows.map((row, at) => {
        if (!shown[at]) return null;
        const top = tops.all[at] as number;
        if (row.kind === "heading") {
          const { name, metrics: members } = row.section;
          return (
            <h2 key={`heading ${name}`} class="section" style={{ transform: `translateY(${top}px)` }}>
              <button type="button" aria-expanded={!folded.has(name)} onClick={() => toggle(name)}>
                <span class="fold" aria-hidden="true" /> {name} <small>{formatCount(members.length, "metric")}</small>
              </button>
            </h2>
          );
        }
        return row.metrics.map((metric, column) => (
          <div
            key={metric.id}
            class="cell"
            style={{ width: `${widthOf(column)}px`, transform: `translate(${leftOf(column)}px, ${top}px)` }}
          >
            <MemoCard metric={metric} settings={settings} pixels={widthOf(column)} isMarking={isMarking} note={noteOf?.(metric) ?? null} onLoaded={showMore} />
          </div>
        ));
      })}
    </div>
  );
}
