// A chart's data as files, and its request as a shell command.

import { identity, settings } from "../http/session";
import type { RequestLine } from "../http/client";
import { urlOf } from "../http/url";
import { type Columns, joined } from "../series/columns";

export interface Named {
  label: string;
  columns: Columns;
}

const time = (seconds: number): string => new Date(Math.round(seconds * 1000)).toISOString();

/** A row per time, a column per series. */
export function csvOf(all: Named[]): string {
  const { times, columns } = joined(all.map((series) => series.columns));
  const rows = [["time", ...all.map(({ label }) => label)].map(quoted)];
  times.forEach((seconds, at) => {
    const values = columns.map((column) => column[at]);
    if (values.some((value) => value != null)) rows.push([time(seconds), ...values.map((value) => (value == null ? "" : String(value)))]);
  });
  return `${rows.map((row) => row.join(",")).join("\r\n")}\r\n`;
}

/** Quotes a cell. Spreadsheets execute cells that begin like a formula; the apostrophe prevents that. */
function quoted(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

export function jsonOf(all: Named[]): string {
  const documents = all.map(({ label, columns }) => ({
    name: label,
    measures: columns.times.map((seconds, at) => [time(seconds), columns.values[at] ?? null]).filter(([, value]) => value !== null),
  }));
  return `${JSON.stringify(documents, null, 1)}\n`;
}

export function save(name: string, data: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(data);
  link.download = name.replace(/[^\w.-]+/g, "_");
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** The request as a shell command. It prompts for the password, and reads the token from the environment. */
export function curlOf({ method, path, options = {} }: RequestLine): string {
  const url = new URL(urlOf(path, options.query), document.baseURI).href;
  const words = ["curl", "-sS", ...authWords()];
  if (method !== "GET") words.push("-X", method);
  if (options.body !== undefined) words.push("-H", shell("Content-Type: application/json"), "-d", shell(JSON.stringify(options.body)));
  return [...words, shell(url)].join(" ");
}

function authWords(): string[] {
  if (settings.auth.mode === "keystone") return ["-H", '"X-Auth-Token: $OS_TOKEN"'];
  if (settings.auth.mode === "remoteuser") return [];
  const name = identity.value?.name ?? "";
  return ["-u", shell(settings.auth.passwords ? name : `${name}:`)];
}

const shell = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`);
