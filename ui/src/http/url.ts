// Addresses of requests.

export type Query = Record<string, string | number | string[] | null | undefined>;

/** The path of a request below the page's own place, so that any prefix is kept. */
export function urlOf(path: string, query: Query = {}): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one != null && one !== "") params.append(name, String(one));
  }
  const text = params.toString();
  return text ? `${path}?${text}` : path;
}
