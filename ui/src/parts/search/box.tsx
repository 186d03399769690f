// The search box: results on each key press, with keyboard navigation.

import { useEffect, useRef, useState } from "preact/hooks";
import { explain } from "../../http/errors";
import { change, go, parse, useAddress } from "../../state/address";
import { type Hit, find } from "./find";
import { OwnerName } from "../owner";

interface Results {
  hits: Hit[];
  /** The text that was searched for. */
  text: string;
  /** Whether all answers are there: hits arrive one kind after the other. */
  isDone: boolean;
  error: string | null;
}

/** Preact's types allow this role only with a `<datalist>`. */
const COMBOBOX = { type: "search", role: "combobox" };

const NONE: Results = { hits: [], text: "", isDone: false, error: null };

const keyOf = ({ kind, key }: Hit): string => `${kind} ${key}`;

const KINDS: Record<Hit["kind"], string> = { all: "", metric: "Metrics", resource: "Resources", type: "Resource types" };

export function SearchBox() {
  const { path, params } = useAddress();
  const isOnGrid = (path[0] ?? "metrics") === "metrics";
  const [text, setText] = useState(params.get("q") ?? "");
  const [results, setResults] = useState<Results>(NONE);
  const [isOpen, setOpen] = useState(false);
  // Not by its place, which changes while hits arrive.
  const [chosenKey, setChosen] = useState<string | null>(null);
  const chosen = results.hits.findIndex((hit) => keyOf(hit) === chosenKey);
  const input = useRef<HTMLInputElement>(null);
  /** Whether Enter waits for all answers. */
  const isEntered = useRef(false);
  const query = params.get("q") ?? "";

  // A link or "back" changes the search in the address; on other views the text stays as typed.
  useEffect(() => {
    if (isOnGrid && query !== text.trim()) setText(query);
  }, [query, isOnGrid]);

  useEffect(() => {
    const wanted = text.trim();
    isEntered.current = false;
    if (!wanted || !isOpen) {
      setResults(NONE);
      return;
    }
    const controller = new AbortController();
    find(wanted, controller.signal, (hits) => setResults({ hits, text: wanted, isDone: false, error: null })).then(
      () => !controller.signal.aborted && setResults((before) => ({ ...before, isDone: true })),
      (error: unknown) => {
        if (controller.signal.aborted) return;
        setResults((before) => ({ hits: before.text === wanted ? before.hits : [], text: wanted, isDone: true, error: explain(error) }));
      },
    );
    return () => controller.abort();
  }, [text, isOpen]);

  useEffect(() => {
    const focus = () => {
      input.current?.focus();
      input.current?.select();
    };
    window.addEventListener("gnudi-search", focus);
    return () => window.removeEventListener("gnudi-search", focus);
  }, []);

  const type = (next: string) => {
    setText(next);
    setOpen(true);
    setChosen(null);
    if (isOnGrid) change({ q: next.trim() || null }, "replace");
  };
  const take = (hit: Hit) => {
    setOpen(false);
    input.current?.blur();
    go(parse(hit.href));
  };
  // Until all answers are there, another hit may come first, or the hits are those of an earlier text.
  const isFirstKnown = results.isDone && results.text === text.trim();
  useEffect(() => {
    const [first] = results.hits;
    if (isEntered.current && isFirstKnown && first) take(first);
  }, [results]);
  const key = (event: KeyboardEvent) => {
    if (event.isComposing) return; // Of an input method.
    const { hits } = results;
    isEntered.current = false;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const step = event.key === "ArrowDown" ? 1 : -1;
      // One more place than hits: none is chosen.
      const places = hits.length + 1;
      const next = hits[((chosen + 1 + step + places) % places) - 1];
      setChosen(next ? keyOf(next) : null);
      event.preventDefault();
    } else if (event.key === "Enter") {
      const hit = hits[Math.max(chosen, 0)];
      if (chosen < 0 && isOnGrid) setOpen(false);
      else if (chosen < 0 && !isFirstKnown) isEntered.current = true;
      else if (hit) take(hit);
    } else if (event.key === "Escape") {
      if (isOpen && results.text) setOpen(false);
      else type("");
    }
  };
  const isShown = isOpen && results.text !== "";
  return (
    <div
      class="search"
      role="search"
      onFocusOut={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setOpen(false);
      }}
    >
      <input
        ref={input}
        {...(COMBOBOX as object)}
        name="search"
        value={text}
        placeholder="Search metrics, resources, ids…"
        aria-label="Search metrics, resources, types and ids"
        aria-expanded={isShown}
        aria-controls="search-results"
        aria-autocomplete="list"
        aria-activedescendant={isShown && chosen >= 0 ? `hit-${chosen}` : undefined}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => type(event.currentTarget.value)}
        onFocus={() => setOpen(true)}
        onKeyDown={key}
      />
      <kbd aria-hidden="true">/</kbd>
      <div id="search-results" class={isShown ? "hits" : "hits hidden"} role="listbox" aria-label="What was found" data-for={results.text}>
        {isShown && results.hits.map((hit, at) => (
          <a
            key={keyOf(hit)}
            id={`hit-${at}`}
            href={hit.href}
            role="option"
            tabIndex={-1}
            aria-selected={at === chosen}
            class={`hit ${hit.kind}`}
            data-kind={at === 0 || results.hits[at - 1]?.kind !== hit.kind ? KINDS[hit.kind] : ""}
            onClick={(event) => {
              event.preventDefault();
              take(hit);
            }}
          >
            <span class="title">{emphasised(hit.title, results.text)}</span>
            <small>{hit.resource && <OwnerName id={hit.resource} />}{hit.note}</small>
          </a>
        ))}
        {isShown && results.isDone && results.hits.length === 0 && !results.error && <p class="empty" role="option" aria-selected="false" aria-disabled="true">Nothing found</p>}
        {results.error && <p class="problem" role="option" aria-selected="false" aria-disabled="true">{results.error}</p>}
      </div>
    </div>
  );
}

function emphasised(title: string, text: string) {
  const at = title.toLowerCase().indexOf(text.toLowerCase());
  if (at < 0) return title;
  return <>{title.slice(0, at)}<mark>{title.slice(at, at + text.length)}</mark>{title.slice(at + text.length)}</>;
}

