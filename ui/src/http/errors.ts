// Errors of requests, with texts for display.

export class HttpError extends Error {
  constructor(
    readonly status: number,
    /** The server's error text. */
    override readonly message: string,
    /** The server's further description, as JSON. */
    readonly description: unknown = null,
  ) {
    super(message);
  }
}

/** For `catch`: this value instead of an error with one of these statuses. */
export const ifStatus = <T>(statuses: number[], value: T) => (error: unknown): T => {
  if (error instanceof HttpError && statuses.includes(error.status)) return value;
  throw error;
};

/** The server is unreachable. */
export class GoneError extends Error {
  constructor() {
    super("The server does not answer.");
  }
}

export function isAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** Parses an error response: gnudi's own are JSON, `{code, title, description}`, those of Prometheus' API `{errorType, error}`. */
export function errorOf(status: number, body: string): HttpError {
  let description: unknown = null;
  try {
    const parsed: unknown = JSON.parse(body);
    description = isRecord(parsed) ? (parsed["description"] ?? parsed["title"] ?? null) : null;
    if (isRecord(parsed) && isRecord(parsed["error"])) description = parsed["error"]["message"];
    if (isRecord(parsed) && typeof parsed["error"] === "string") description = parsed["error"];
  } catch {
    // Not JSON, for example a proxy's page: use the status only.
  }
  return new HttpError(status, textOf(description) || TITLES[status] || `The server answered ${status}.`, description);
}

const TITLES: Record<number, string> = {
  401: "Log in first.",
  403: "You may not see this.",
  404: "There is no such thing.",
  429: "Too many requests for the moment.",
  503: "The server cannot answer that now.",
};

function textOf(description: unknown): string {
  if (typeof description === "string") return description;
  if (!isRecord(description)) return "";
  const parts = [description["cause"], description["reason"], detailText(description["detail"])];
  return parts.filter((part) => typeof part === "string" && part).join(": ");
}

function detailText(detail: unknown): string {
  if (typeof detail === "string") return detail;
  return detail == null ? "" : JSON.stringify(detail).slice(0, 300);
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function explain(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
