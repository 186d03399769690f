// Keyboard shortcuts of all views, and their help dialog.

import { useEffect, useRef } from "preact/hooks";
import { markChange } from "../chart/settings";
import { settings } from "../http/session";
import { address, change, go, linkTo, parse } from "../state/address";
import { choose, theme } from "../state/theme";
import { pan, range, showLast, toggleLive, zoom } from "../state/time";
import { VIEWS } from "./header";

/** Where the shown time can be marked: the views with a chart bar. */
function markShown(): void {
  const [view = "metrics", , id] = address.value.path;
  if (view === "metrics" || view === "chart" || (view === "resources" && id)) change(markChange(range.value));
}

type Key = [key: string, does: string, press: () => void];

const KEYS: Key[] = [
  ["/", "search", () => window.dispatchEvent(new Event("gnudi-search"))],
  ["ArrowLeft", "earlier", () => pan(-0.25)],
  ["ArrowRight", "later", () => pan(0.25)],
  ["+", "zoom in", () => zoom(0.5)],
  ["-", "zoom out", () => zoom(2)],
  ["Backspace", "back", () => history.back()],
  ["0", "the time that fits", () => showLast(null)],
  ["l", "live, or stand still", toggleLive],
  ["m", "mark the shown time: what changed there?", markShown],
  ["t", "light or dark", () => choose(theme.value === "dark" ? "light" : "dark")],
  ...VIEWS.map(([name], at): Key => [String(at + 1), name, () => go(parse(linkTo([name])))]),
];

const SHOWN: Record<string, string> = { ArrowLeft: "←", ArrowRight: "→", Backspace: "⌫", "-": "−" };

/** What scrolls sideways by the arrow keys. */
const SCROLLING = ".scroll, pre";

export function useKeys(onHelp: () => void): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      // A closed dialog keeps the focus until the next frame; its keys already belong to the page.
      if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select, dialog[open], [contenteditable]")) return;
      if (event.key === "?") onHelp();
      if (event.key.startsWith("Arrow") && target.closest(SCROLLING)) return;
      const found = KEYS.find(([key]) => key === event.key || (key === "+" && event.key === "="));
      if (!found) return;
      event.preventDefault();
      found[2]();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}

const licences = (): string => document.querySelector<HTMLLinkElement>('link[rel="license"]')?.href ?? "";

export function KeysDialog({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="keys" aria-labelledby="keys-title" onClose={onClose} onClick={(event) => event.target === dialog.current && onClose()}>
      <h1 id="keys-title">Keys</h1>
      <dl>
        {KEYS.map(([key, does]) => <div key={key}><dt><kbd>{SHOWN[key] ?? key.toUpperCase()}</kbd></dt><dd>{does}</dd></div>)}
        <div><dt><kbd>drag</kbd></dt><dd>zoom into that time</dd></div>
        <div><dt><kbd>Shift</kbd> drag</dt><dd>mark it: what changed there?</dd></div>
        <div><dt><kbd>Ctrl</kbd> wheel</dt><dd>zoom around the pointer</dd></div>
      </dl>
      <p class="sub">gnudi {settings.version} · <a href="v1/openapi.json">the API</a> · <a href={licences()}>licences of what the page is made of</a></p>
      <form method="dialog"><button class="main" autofocus>Close</button></form>
    </dialog>
  );
}
