// What the page shows is in its address, behind the `#`: a link shows to others what I see, and the browser's own "back" goes back.

import { Cell, useCell } from "./cell";
import { type Address, parse, print } from "./hash";

export { type Address, parse, print };

export type Changes = Record<string, string | string[] | null | undefined>;

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
