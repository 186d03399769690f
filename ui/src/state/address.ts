// The page's state is in its address, after the `#`: links reproduce a view, and the browser's history works.

import { Cell, useCell } from "./cell";
import { type Address, parse, print } from "./hash";

export { type Address, parse, print };

export type Changes = Record<string, string | string[] | null | undefined>;

export const address = new Cell<Address>(parse(location.hash));

window.addEventListener("hashchange", () => address.set(parse(location.hash)));

export const useAddress = (): Address => useCell(address);

/** The address with changed parameters; `null` and empty texts remove one. */
export function changed(from: Address, changes: Changes, path = from.path): Address {
  const params = new URLSearchParams(from.params);
  for (const [name, value] of Object.entries(changes)) {
    params.delete(name);
    for (const one of Array.isArray(value) ? value : [value]) if (one) params.append(name, one);
  }
  return { path, params };
}

/** Navigates to an address. Frequent changes (keys, clicks) replace the history entry. */
export function go(to: Address, how: "push" | "replace" = "push"): void {
  const text = print(to);
  if (text === print(address.value)) return;
  history[how === "push" ? "pushState" : "replaceState"](null, "", text);
  address.set(parse(text));
}

export function change(changes: Changes, how: "push" | "replace" = "push"): void {
  go(changed(address.value, changes), how);
}

/** The parameters kept when the view changes: the range of time, and whether it is live. */
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
