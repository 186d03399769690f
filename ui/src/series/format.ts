// Formats numbers and times for display.

const LARGE = ["", "k", "M", "G", "T", "P", "E"];
const SMALL = ["", "m", "µ", "n"];

/** Units of bytes; values are shown with the best-fitting prefix. */
const BYTES = new Map(Object.entries({ B: 1, byte: 1, bytes: 1, KB: 1024, KiB: 1024, kB: 1000, MB: 1024 ** 2, MiB: 1024 ** 2, GB: 1024 ** 3, GiB: 1024 ** 3 }));
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Formats three significant digits by default. */
function digits(value: number, count = 3): string {
  if (value === 0) return "0";
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  return Number(value.toFixed(Math.min(Math.max(count - 1 - magnitude, 0), 12))).toString();
}

function scaled(value: number, base: number, names: string[]): [number, string] {
  let [at, rest] = [0, value];
  while (Math.abs(rest) >= base * 0.9995 && at < names.length - 1) {
    rest /= base;
    at += 1;
  }
  return [rest, names[at] as string];
}

export const isBytes = (unit: string | null): boolean => BYTES.has(splitUnit(unit)[0]);

/** Formats a value with its unit. */
export function format(value: number | null | undefined, unit: string | null = null, count = 3): string {
  if (value == null || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const [plain, per] = splitUnit(unit);
  const inBytes = BYTES.get(plain);
  if (inBytes) {
    const [number, name] = scaled(value * inBytes, 1024, BYTE_UNITS);
    return `${digits(number, count)} ${name}${per}`;
  }
  const ending = `${plain && ` ${plain}`}${per}`;
  if (plain === "%" && Math.abs(value) < 1000) return `${digits(value, count)}${ending}`;
  const size = Math.abs(value);
  if (size !== 0 && size < 0.001) {
    let [at, rest] = [0, value];
    while (Math.abs(rest) < 1 && at < SMALL.length - 1) [at, rest] = [at + 1, rest * 1000];
    return `${digits(rest, count)} ${SMALL[at]}${ending.trimStart()}`;
  }
  if (size < 10_000) return `${digits(value, Math.max(count, size >= 1000 ? 4 : 3))}${ending}`;
  const [number, prefix] = scaled(value, 1000, LARGE);
  return `${digits(number, count)}${ending ? ` ${prefix}${ending.trimStart()}` : prefix ? ` ${prefix}` : ""}`;
}

function splitUnit(unit: string | null): [string, string] {
  const text = unit ?? "";
  return text.endsWith("/s") ? [text.slice(0, -2), "/s"] : [text, ""];
}

const perSecond = (unit: string | null): string => `${unit ?? ""}/s`;

/** The unit of an aggregate's values, or of their rate. A count does not have the unit of the values, and some aggregates are rates already. */
export function unitOf(unit: string | null, method: string, isRate: boolean): string | null {
  const own = method === "count" || method === "rate:count" ? null : method === "rate_reset" ? perSecond(unit) : unit;
  return isRate ? perSecond(own) : own;
}

export const two = (number: number): string => String(number).padStart(2, "0");

const dayOf = (date: Date): string => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;

/** Formats a local time; shows seconds only if they are not zero. */
export function formatTime(seconds: number, withDay = true): string {
  const date = new Date(seconds * 1000);
  const time = `${two(date.getHours())}:${two(date.getMinutes())}${date.getSeconds() ? `:${two(date.getSeconds())}` : ""}`;
  return withDay ? `${dayOf(date)} ${time}` : time;
}

/** Formats a value for `<input type=datetime-local>`. */
export function localInput(seconds: number): string {
  const date = new Date(seconds * 1000);
  return `${dayOf(date)}T${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

export function formatCount(count: number, one: string, many = `${one}s`): string {
  return `${String(count).replace(/\B(?=(\d{3})+$)/g, "\u202f")} ${count === 1 ? one : many}`;
}
