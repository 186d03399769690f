// The settings that the server embeds in the page, and the identity before a log-in.

export type Auth =
  | { mode: "basic"; passwords: boolean }
  | { mode: "remoteuser" }
  | { mode: "keystone"; uri: string };

export interface Settings {
  version: string;
  auth: Auth;
}

/** Reads the embedded settings. */
export function settingsOf(page: Document): Settings {
  const text = page.querySelector('meta[name="gnudi"]')?.getAttribute("content") ?? "";
  try {
    return JSON.parse(text) as Settings;
  } catch {
    return { version: "", auth: { mode: "basic", passwords: true } };
  }
}

export const settings = settingsOf(document);

/** How requests are sent. A proxy that names the users may know them by a cookie, and redirect others to a log-in, to which no request can follow. */
export const SENDING: RequestInit = {
  cache: "no-store",
  ...(settings.auth.mode === "remoteuser" ? { credentials: "same-origin", redirect: "manual" } : { credentials: "omit" }),
};

export interface Identity {
  name: string;
  headers: Record<string, string>;
}

/** Without passwords a name suffices; this one may see everything. */
const FIRST_USER = "admin";

export const firstIdentity = (): Identity | null => {
  if (settings.auth.mode === "remoteuser") return { name: "", headers: {} };
  const free = settings.auth.mode === "basic" && !settings.auth.passwords;
  return free ? basic(FIRST_USER, "") : null;
};

export function basic(user: string, password: string): Identity {
  const bytes = new TextEncoder().encode(`${user}:${password}`);
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return { name: user, headers: { Authorization: `Basic ${btoa(binary)}` } };
}
