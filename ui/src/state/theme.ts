// Light or dark theme: the system's, unless the user has chosen one. The choice is the only thing that the
// page stores.

import { Cell } from "./cell";

export type Theme = "light" | "dark";
export type Choice = Theme | "system";

const KEY = "gnudi-theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");

let colours = new Map<string, string>();

function stored(): Choice {
  try {
    const text = localStorage.getItem(KEY);
    return text === "light" || text === "dark" ? text : "system";
  } catch {
    return "system"; // Storage may be forbidden.
  }
}

export const choice = new Cell<Choice>(stored());
export const theme = new Cell<Theme>(themeOf(choice.value));

function themeOf(chosen: Choice): Theme {
  return chosen === "system" ? (dark.matches ? "dark" : "light") : chosen;
}

function apply(): void {
  colours = new Map();
  document.documentElement.dataset["theme"] = themeOf(choice.value);
  theme.set(themeOf(choice.value));
}

apply();
dark.addEventListener("change", apply);

export function choose(next: Choice): void {
  choice.set(next);
  try {
    if (next === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, next);
  } catch {
    // Storage is forbidden: the choice lasts until the page is closed.
  }
  apply();
}

/** A colour of the style sheet; cached, since each look-up makes the browser compute styles. */
export function colour(name: string): string {
  let found = colours.get(name);
  if (found === undefined) {
    found = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    colours.set(name, found);
  }
  return found;
}

const COLOURS = 10;

/** The colour of a line by its index. */
export const lineColour = (at: number): string => colour(`line-${(at % COLOURS) + 1}`);
