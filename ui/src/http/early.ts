// The request that `begin.ts` sends before the main script is loaded.

export const ACCEPT_JSON = "application/json, */*;q=0.1";

interface Early {
  key: string;
  answer: Promise<Response>;
}

declare global {
  interface Window {
    /** `null` once it was taken or missed. */
    gnudiEarly?: Early | null;
  }
}

const keyOf = (url: string, init: RequestInit): string => JSON.stringify([url, init.method, init.headers, init.credentials]);

export function sendEarly(url: string, init: RequestInit): void {
  if (window.gnudiEarly !== undefined) return;
  const answer = fetch(url, init);
  window.gnudiEarly = { key: keyOf(url, init), answer };
  answer.catch(() => null); // The caller of `takeEarly` handles the error.
}

/** The response to exactly this request, if it was sent early. Only the page's first request can take it. */
export function takeEarly(url: string, init: RequestInit): Promise<Response> | null {
  const found = window.gnudiEarly;
  window.gnudiEarly = null;
  return found?.key === keyOf(url, init) ? found.answer : null;
}
