// Parses and prints the fragment of the address.

export interface Address {
  /** The segments, decoded: `resource`, a type, an id. */
  path: string[];
  params: URLSearchParams;
}

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
    return segment; // A truncated link may end within a character.
  }
}

export function print(address: Address): string {
  const query = address.params.toString().replace(/%2C/g, ",").replace(/%3A/g, ":");
  return `#/${address.path.map(encodeURIComponent).join("/")}${query ? `?${query}` : ""}`;
}
