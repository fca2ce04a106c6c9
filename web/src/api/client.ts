/** Requests to the server that sent this page, with its types, and with its errors as exceptions. */
import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

/** What the server refused, in its own words, which say what to do. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly field: string | null = null,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

/** The server did not answer at all. */
export class Unreachable extends Error {
  constructor() {
    super("The server does not answer. This page continues when the server is back.");
    this.name = "Unreachable";
  }
}

/** The text of the reader's language, else the English one. */
export function inOwnLanguage(texts: Record<string, string> | undefined): string | null {
  return texts?.[navigator.language.slice(0, 2)] ?? texts?.en ?? Object.values(texts ?? {})[0] ?? null;
}

export const api = createClient<paths>({ baseUrl: window.location.origin, credentials: "same-origin" });

interface Outcome<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The data of an answer. Throws `ApiError` or `Unreachable`. */
export async function answered<T>(call: Promise<Outcome<T>>): Promise<T> {
  let outcome: Outcome<T>;
  try {
    outcome = await call;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Unreachable();
  }
  if (outcome.response.ok) return outcome.data as T;
  const told = (outcome.error as Partial<Schemas["ErrorAnswer"]> | undefined)?.error;
  const described = inOwnLanguage(told?.descriptions);
  const reason = told?.message ?? `The server answered ${outcome.response.status}.`;
  const message = described ? `${reason} (${described})` : reason;
  throw new ApiError(message, outcome.response.status, told?.field ?? null);
}
