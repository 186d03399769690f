// URLs of requests.

export type Query = Record<string, string | number | string[] | null | undefined>;

/** The URL of a path relative to the page, which keeps any path prefix. */
export function urlOf(path: string, query: Query = {}): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one != null && one !== "") params.append(name, String(one));
  }
  const text = params.toString();
  return text ? `${path}?${text}` : path;
}
