// The menu for the range of time: relative or absolute, live or not.

import { useEffect, useRef, useState } from "preact/hooks";
import { formatTime, localInput } from "../series/format";
import { LASTS, inWords, spanOf } from "../series/range";
import { useAddress } from "../state/address";
import { useCell } from "../state/cell";
import { autoSeconds, isLive, pan, range, show, showLast, toggleLive, zoom } from "../state/time";

export function RangeMenu() {
  const { params } = useAddress();
  const live = useCell(isLive);
  const auto = useCell(autoSeconds);
  const [isOpen, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const opener = useRef<HTMLButtonElement>(null);
  // The focus was in the menu, which goes.
  const leave = () => {
    setOpen(false);
    if (box.current?.contains(document.activeElement)) opener.current?.focus();
  };
  useEffect(() => {
    if (!isOpen) return;
    const close = (event: Event) => {
      if (event instanceof KeyboardEvent ? event.key === "Escape" : !box.current?.contains(event.target as Node)) leave();
    };
    document.addEventListener("pointerdown", close);
    document.addEventListener("keydown", close);
    return () => {
      document.removeEventListener("pointerdown", close);
      document.removeEventListener("keydown", close);
    };
  }, [isOpen]);
  const span = spanOf(params);
  const text = span === "auto" ? `Last ${inWords(auto)}` : "last" in span ? `Last ${inWords(span.last)}` : `${formatTime(span.from)} – ${endText(span.from, span.to)}`;
  return (
    <div class="range" ref={box}>
      <button type="button" class="icon" title="Earlier (←)" aria-label="Earlier" onClick={() => pan(-0.5)}>‹</button>
      <button ref={opener} type="button" class="what" aria-haspopup="dialog" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>{text}</button>
      <button type="button" class="icon" title="Later (→)" aria-label="Later" onClick={() => pan(0.5)}>›</button>
      <button type="button" class="icon" title="Zoom out (−)" aria-label="Zoom out" onClick={() => zoom(2)}>−</button>
      <button type="button" class="icon" title="Zoom in (+)" aria-label="Zoom in" onClick={() => zoom(0.5)}>+</button>
      <button type="button" class={`live${live ? " on" : ""}`} aria-pressed={live} title="Follow what comes (L)" onClick={toggleLive}>
        <span class="dot" aria-hidden="true" />Live
      </button>
      {isOpen && <Choices onDone={leave} />}
    </div>
  );
}

const endText = (from: number, to: number): string =>
  formatTime(to, new Date(from * 1000).toDateString() !== new Date(to * 1000).toDateString());

function Choices({ onDone }: { onDone: () => void }) {
  const [{ from, to }] = useState(range.value);
  const [begin, setBegin] = useState(localInput(from));
  const [end, setEnd] = useState(localInput(to));
  // The fields have no fractions of seconds, and their times are ambiguous where summer time ends.
  const secondsOf = (text: string, known: number) => (text === localInput(known) ? known : Date.parse(text) / 1000);
  const chosen = { from: secondsOf(begin, from), to: secondsOf(end, to) };
  const isRight = chosen.to > chosen.from;
  return (
    <div class="menu" role="dialog" aria-label="Time to show">
      <div class="lasts">
        <button type="button" onClick={() => (showLast(null), onDone())}>What fits</button>
        {LASTS.map((last) => (
          <button key={last} type="button" onClick={() => (showLast(last), onDone())}>{inWords(last)}</button>
        ))}
      </div>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (isRight) {
            show(chosen);
            onDone();
          }
        }}
      >
        <label>From <input type="datetime-local" step="1" value={begin} onInput={(event) => setBegin(event.currentTarget.value)} /></label>
        <label>To <input type="datetime-local" step="1" value={end} onInput={(event) => setEnd(event.currentTarget.value)} /></label>
        {!isRight && <p class="problem" role="alert">The end must be after the beginning.</p>}
        <button type="submit" disabled={!isRight}>Show</button>
      </form>
    </div>
  );
}
