// Authentication of the user. Passwords and tokens are kept in memory only.

import { Cell } from "../state/cell";
import { GoneError, errorOf } from "./errors";
import { type Identity, basic, firstIdentity, settings } from "./settings";

export { settings };

interface KeystoneLogin {
  uri: string;
  user: string;
  password: string;
  userDomain: string;
  project: string;
  projectDomain: string;
}

/** The current user; `null` until logged in. */
export const identity = new Cell<Identity | null>(firstIdentity());

/** Why the log-in dialog is open; `null` if it is closed. The page stays as it is behind it. */
export const loginReason = new Cell<string | null>(identity.value ? null : "");

/** Counts changes of the user: the views begin anew, since another one may see other things. */
export const users = new Cell(0);

/** Who sees the views; `null` before the first log-in, and after logging out. */
let viewer = identity.value?.name ?? null;

/** `user`: distinct for each user. */
function become(next: Identity, user = next.name): void {
  if (viewer !== null && viewer !== user) users.set(users.value + 1);
  viewer = user;
  identity.set(next);
  loginReason.set(null);
}

/** The server rejected this identity. Later requests wait for a log-in. */
export function rejectIdentity(who: Identity | null, reason: string): void {
  if (who !== identity.value) return; // The request began before the last log-in.
  identity.set(null);
  loginReason.set(reason);
}

/** Waits for a log-in. */
export function waitForIdentity(signal?: AbortSignal): Promise<Identity> {
  if (identity.value) return Promise.resolve(identity.value);
  return new Promise((resolve, reject) => {
    const stop = identity.follow((value) => {
      if (!value) return;
      stop();
      resolve(value);
    });
    signal?.addEventListener("abort", () => {
      stop();
      reject(new DOMException("", "AbortError"));
    });
  });
}

/** For a log-in as somebody else: nothing stays of what this user saw. */
export function logOut(): void {
  viewer = null;
  identity.set(null);
  users.set(users.value + 1);
  loginReason.set("");
}

/** Verifies name and password with the server. */
export async function logInBasic(user: string, password: string): Promise<void> {
  await verify(basic(user, password));
}

/** Logs in by an existing token, as from `openstack token issue`. */
export async function logInToken(token: string): Promise<void> {
  await verify({ name: "token", headers: { "X-Auth-Token": token.trim() } });
}

/** Becomes this user if the server accepts it. */
async function verify(next: Identity, user?: string): Promise<void> {
  const headers = { Accept: "application/json", ...next.headers };
  const unreachable = (): never => {
    throw new GoneError();
  };
  const answer = await fetch("v1/metric?limit=1", { headers, credentials: "omit", cache: "no-store" }).catch(unreachable);
  if (!answer.ok) throw errorOf(answer.status, await answer.text());
  become(next, user);
}

export async function logInKeystone(login: KeystoneLogin): Promise<void> {
  const { token, name } = await issueToken(login);
  const { user, userDomain, project, projectDomain } = login;
  await verify({ name, headers: { "X-Auth-Token": token } }, JSON.stringify([user, userDomain, project, projectDomain]));
}

async function issueToken(login: KeystoneLogin): Promise<{ token: string; name: string }> {
  const uri = login.uri.replace(/\/+$/, "");
  const body = {
    auth: {
      identity: {
        methods: ["password"],
        password: { user: { name: login.user, password: login.password, domain: { name: login.userDomain } } },
      },
      ...(login.project && { scope: { project: { name: login.project, domain: { name: login.projectDomain } } } }),
    },
  };
  let answer: Response;
  try {
    answer = await fetch(`${uri}${/\/v3$/.test(uri) ? "" : "/v3"}/auth/tokens`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      credentials: "omit",
    });
  } catch {
    throw new Error(
      `Keystone at ${uri} does not answer this page. It must allow the origin ${location.origin} ([cors] allowed_origin in its configuration); a token from "openstack token issue" works without that.`,
    );
  }
  if (!answer.ok) throw errorOf(answer.status, await answer.text());
  const token = answer.headers.get("X-Subject-Token");
  if (!token) {
    throw new Error("Keystone keeps the token from this page: X-Subject-Token must be among [cors] expose_headers.");
  }
  return { token, name: login.project ? `${login.user}, ${login.project}` : login.user };
}
