// What the page shows is in its address, behind the `#`: a link shows to others what I see, and the browser's own "back" goes back.

import { Cell, useCell } from "./cell";

export interface Address {
  /** The segments, decoded: `resource`, a type, an id. */
  path: string[];
  params: URLSearchParams;
}

export type Changes = Record<string, string | string[] | null | undefined>;

export function parse(hash: string): Address {
  const text = hash.replace(/^#?\/?/, "");
  const mark = text.indexOf("?");
  const path = mark < 0 ? text : text.slice(0, mark);
  return {
    path: path.split("/").filter(Boolean).map(decoded),
    params: new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1)),
  };
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment; // Somebody cut the link in the middle of a character.
  }
}

export function print(address: Address): string {
  const query = address.params.toString().replace(/%2C/g, ",").replace(/%3A/g, ":");
  return `#/${address.path.map(encodeURIComponent).join("/")}${query ? `?${query}` : ""}`;
}

export const address = new Cell<Address>(parse(location.hash));

window.addEventListener("hashchange", () => address.set(parse(location.hash)));

export const useAddress = (): Address => useCell(address);

/** The address with some parameters changed; `null` and empty texts leave one out. */
export function changed(from: Address, changes: Changes, path = from.path): Address {
  const params = new URLSearchParams(from.params);
  for (const [name, value] of Object.entries(changes)) {
    params.delete(name);
    for (const one of Array.isArray(value) ? value : [value]) if (one) params.append(name, one);
  }
  return { path, params };
}

/** Goes to an address. What changes with every key or click replaces the entry of the history. */
export function go(to: Address, how: "push" | "replace" = "push"): void {
  const text = print(to);
  if (text === print(address.value)) return;
  history[how === "push" ? "pushState" : "replaceState"](null, "", text);
  address.set(parse(text));
}

export function change(changes: Changes, how: "push" | "replace" = "push"): void {
  go(changed(address.value, changes), how);
}

/** What stays when the view changes: the range of time, and what is live. */
const KEPT = ["last", "from", "to", "live"];

/** The address of another view as a link's `href`. */
export function linkTo(path: string[], changes: Changes = {}): string {
  const params = new URLSearchParams();
  for (const name of KEPT) {
    const value = address.value.params.get(name);
    if (value) params.set(name, value);
  }
  return print(changed({ path, params }, changes));
}
