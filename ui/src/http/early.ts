// The request that `begin.ts` sends while the rest of the page is still on its way.

export const ACCEPT_JSON = "application/json, */*;q=0.1";

interface Early {
  key: string;
  answer: Promise<Response>;
}

declare global {
  interface Window {
    /** `null` once the page asks for itself. */
    gnudiEarly?: Early | null;
  }
}

const keyOf = (url: string, init: RequestInit): string => JSON.stringify([url, init.method, init.headers, init.credentials]);

export function askEarly(url: string, init: RequestInit): void {
  if (window.gnudiEarly !== undefined) return;
  const answer = fetch(url, init);
  window.gnudiEarly = { key: keyOf(url, init), answer };
  answer.catch(() => null); // Whoever takes it hears of it.
}

/** The answer to just this request, if it was sent already: for the page's first request only. */
export function early(url: string, init: RequestInit): Promise<Response> | null {
  const found = window.gnudiEarly;
  window.gnudiEarly = null;
  return found?.key === keyOf(url, init) ? found.answer : null;
}
