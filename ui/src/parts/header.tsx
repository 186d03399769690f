// The header: navigation, search, range of time, user.

import { logOut, identity, settings } from "../http/session";
import { linkTo, useAddress } from "../state/address";
import { useCell } from "../state/cell";
import { choice, choose, theme } from "../state/theme";
import { RangeMenu } from "./range_menu";
import { SearchBox } from "./search/box";

/** The views, in the order of their keys: 1, 2 and so on. */
export const VIEWS: [string, string][] = [["metrics", "Metrics"], ["query", "Query"], ["resources", "Resources"], ["store", "Store"]];

export function Header({ onHelp }: { onHelp: () => void }) {
  const { path } = useAddress();
  const view = path[0] ?? "metrics";
  return (
    <header class="top">
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>To the content</a>
      <a class="brand" href={linkTo(["metrics"])} title={`gnudi ${settings.version}`}>
        <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
          <rect width="32" height="32" rx="8" class="tile" />
          <path d="M6 21c3 0 3-9 6.500-9s3.500 8 6.500 8 3.500-11 7-11" class="wave" />
        </svg>
        <span>gnudi</span>
      </a>
      <nav aria-label="Views">
        {VIEWS.map(([name, title]) => (
          <a key={name} href={linkTo([name])} aria-current={view === name || (view === "chart" && name === "metrics") ? "page" : undefined}>{title}</a>
        ))}
      </nav>
      <SearchBox />
      <RangeMenu />
      <div class="corner">
        <ThemeButton />
        <button type="button" class="icon" title="Keys (?)" aria-label="Keys" onClick={onHelp}>?</button>
        <User />
      </div>
    </header>
  );
}

function ThemeButton() {
  const look = useCell(theme);
  const chosen = useCell(choice);
  const next = look === "dark" ? "light" : "dark";
  const title = `${next === "dark" ? "Dark" : "Light"} colours (T)${chosen === "system" ? ", now as the system is" : ""}`;
  return (
    <button type="button" class="icon" title={title} aria-label={`${next === "dark" ? "Dark" : "Light"} colours`} onClick={() => choose(next)}>
      <svg viewBox="0 0 20 20" width="17" height="17" aria-hidden="true"><circle cx="10" cy="10" r="7" class="ring" /><path d="M10 3a7 7 0 0 1 0 14z" class="half" /></svg>
    </button>
  );
}

function User() {
  const who = useCell(identity);
  if (!who || settings.auth.mode === "remoteuser") return null;
  return (
    <button type="button" class="user" title="Log in as somebody else" onClick={logOut}>
      <bdi>{who.name}</bdi>
    </button>
  );
}
