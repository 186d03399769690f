// A text editor with completion, which marks mistakes at their position.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Mistake } from "../../language/problem";
import { useNewest } from "../../state/newest";

export interface Offer {
  text: string;
  note?: string;
}

export interface Offers {
  from: number;
  word: string;
  all: Offer[];
}

interface EditorProps {
  id: string;
  label: string;
  value: string;
  rows: number;
  placeholder: string;
  mistakes: Mistake[];
  onValue: (value: string) => void;
  onRun: () => void;
  /** The completions at a position; called on each key press. */
  offersAt: (value: string, place: number) => Promise<Offers>;
}

const OFFERED_MAX = 8;

export function Editor(props: EditorProps) {
  const { id, label, value, rows, placeholder, mistakes, onValue, onRun } = props;
  const input = useRef<HTMLTextAreaElement>(null);
  const mirror = useRef<HTMLPreElement>(null);
  const [offers, setOffers] = useState<Offers | null>(null);
  const [chosen, setChosen] = useState(0);
  const [place, setPlace] = useState({ left: 0, top: 0 });
  const cursor = useRef<number | null>(null);
  const newest = useNewest();

  const look = (text: string, at: number) => newest.start(
    () => props.offersAt(text, at),
    (next) => {
      if (document.activeElement !== input.current) return;
      setChosen(0);
      setOffers(fitting(next));
    },
    () => setOffers(null), // Completion is optional: the server reports errors when the query runs.
  );
  const take = ({ text }: Offer) => {
    if (!offers || !input.current) return;
    const { from, word } = offers;
    const next = `${value.slice(0, from)}${text}${value.slice(from + word.length)}`;
    cursor.current = from + text.length;
    newest.stop();
    setOffers(null);
    onValue(next);
    input.current.focus();
  };
  useLayoutEffect(() => {
    if (cursor.current === null || !input.current) return;
    input.current.setSelectionRange(cursor.current, cursor.current);
    cursor.current = null;
  }, [value]);
  useLayoutEffect(() => {
    const mark = mirror.current?.querySelector<HTMLElement>(".caret");
    if (offers && mark) setPlace({ left: Math.min(mark.offsetLeft, (mirror.current?.clientWidth ?? 300) - 220), top: mark.offsetTop + mark.offsetHeight });
  }, [offers]);
  useEffect(() => {
    if (input.current && mirror.current) mirror.current.scrollTop = input.current.scrollTop;
  });
  const key = (event: KeyboardEvent) => {
    if (event.isComposing) return; // Of an input method.
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      setOffers(null);
      onRun();
    } else if (offers && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      setChosen((chosen + (event.key === "ArrowDown" ? 1 : offers.all.length - 1)) % offers.all.length);
    } else if (offers && (event.key === "Enter" || event.key === "Tab") && !event.shiftKey) {
      event.preventDefault();
      take(offers.all[chosen] as Offer);
    } else if (offers && event.key === "Escape") {
      setOffers(null);
    }
  };
  return (
    <div class="editor">
      <label for={id}>{label}</label>
      <div class="sheet">
        <pre ref={mirror} aria-hidden="true">{marked(value, mistakes, offers?.from ?? -1)}{"\n"}</pre>
        <textarea
          ref={input}
          id={id}
          rows={rows}
          value={value}
          placeholder={placeholder}
          spellcheck={false}
          autocomplete="off"
          aria-invalid={mistakes.length > 0}
          aria-describedby={`${id}-mistakes`}
          aria-controls={`${id}-offers`}
          aria-autocomplete="list"
          aria-activedescendant={offers ? `${id}-offer-${chosen}` : undefined}
          onInput={(event) => {
            const { value, selectionStart } = event.currentTarget;
            onValue(value);
            setChosen(0);
            setOffers(offers && continued(offers, value, selectionStart));
            look(value, selectionStart);
          }}
          onKeyDown={key}
          onScroll={() => mirror.current && input.current && (mirror.current.scrollTop = input.current.scrollTop)}
          onBlur={() => setOffers(null)}
        />
        <ul id={`${id}-offers`} class={offers ? "offers" : "offers hidden"} role="listbox" aria-label="What may come next" style={{ left: `${place.left}px`, top: `${place.top}px` }}>
          {offers?.all.map((offer, at) => (
            <li
              key={offer.text}
              id={`${id}-offer-${at}`}
              role="option"
              aria-selected={at === chosen}
              onMouseDown={(event) => {
                event.preventDefault();
                take(offer);
              }}
            >
              <span>{offer.text}</span>
              {offer.note && <small>{offer.note}</small>}
            </li>
          ))}
        </ul>
      </div>
      <p id={`${id}-mistakes`} class="mistakes" aria-live="polite">{[...new Set(mistakes.map(({ message }) => message))].map((message) => <span key={message}>{message}</span>)}</p>
    </div>
  );
}

/** The offers that contain the word, except the word itself. */
function fitting(offers: Offers): Offers | null {
  const word = offers.word.toLowerCase();
  const all = offers.all.filter(({ text }) => text !== offers.word && text.toLowerCase().includes(word));
  return all.length ? { ...offers, all: all.slice(0, OFFERED_MAX) } : null;
}

/** The offers that still fit a longer word, until the response with new ones arrives. */
function continued(offers: Offers, value: string, place: number): Offers | null {
  const word = value.slice(offers.from, place);
  return word.startsWith(offers.word) && !/[\s()]/.test(word) ? fitting({ ...offers, word }) : null;
}

/** The text with its mistakes marked, and a marker at the completion's position. */
function marked(text: string, mistakes: Mistake[], offered: number) {
  const cuts = new Set([0, text.length, ...mistakes.flatMap(({ from, to }) => [from, to]), ...(offered >= 0 ? [offered] : [])]);
  const places = [...cuts].filter((at) => at >= 0 && at <= text.length).sort((a, b) => a - b);
  return places.map((from, at) => {
    const to = places[at + 1] ?? from;
    const isWrong = mistakes.some((mistake) => mistake.from <= from && to <= Math.max(mistake.to, mistake.from + 1) && to > from);
    const part = text.slice(from, to);
    return (
      <>
        {from === offered && <span class="caret" />}
        {isWrong ? <span class="wrong">{part}</span> : part}
      </>
    );
  });
}
