// The server's side. If it wants a key, the user is asked for it once in a session of the browser.

import { isObject, list, maybeNumber, number, object, text, type Json } from "./json.ts";
import { kMostBytes, Recording } from "./recording.ts";

const kKeyName = "tenon-key";

export const key = (): string => sessionStorage.getItem(kKeyName) ?? "";
export const setKey = (value: string): void => {
  if (value === "") sessionStorage.removeItem(kKeyName);
  else sessionStorage.setItem(kKeyName, value);
};

/// What a request failed with, as a sentence. `wantsKey`: the server wants a key, or refuses this one.
export class RequestError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
  get wantsKey(): boolean {
    return this.status === 401 || this.status === 403;
  }
}

export async function ask(path: string, options: RequestInit = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  if (key() !== "") headers.set("authorization", `Bearer ${key()}`);
  let response: Response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store" });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new RequestError(0, "The server does not answer.");
  }
  if (response.ok) return response;
  const body: unknown = await response.json().catch(() => undefined);
  const message = text(object(object(body)["error"])["message"]) || `The server answers with status ${response.status}.`;
  throw new RequestError(response.status, message);
}

// ---- The list ----------------------------------------------------------------------------------

export interface Entry {
  name: string;
  id: string;
  began: number; // microseconds since 1970
  model: string;
  path: string;
  stream: boolean;
  status: number | undefined;
  tokens: number;
  calls: number;
  tools: string[];
  guarantee: string;
  repairs: number;
  error: string;
  us: number;
  live: boolean;
}

export async function entries(before = "", signal?: AbortSignal): Promise<{ entries: Entry[]; more: boolean }> {
  const query = before === "" ? "" : `&before=${encodeURIComponent(before)}`;
  const response = await ask(`/inspector/api/recordings?limit=200${query}`, signal ? { signal } : {});
  const body = object((await response.json()) as Json);
  const rows = list(body["recordings"]).filter(isObject).filter((row) => text(row["name"]) !== "");
  return {
    more: body["more"] === true && rows.length > 0,
    entries: rows.map((row) => ({
      name: text(row["name"]),
      id: text(row["id"]),
      began: number(row["began"]),
      model: text(row["model"]),
      path: text(row["path"]),
      stream: row["stream"] === true,
      status: maybeNumber(row["status"]),
      tokens: number(row["tokens"]),
      calls: number(row["calls"]),
      tools: list(row["tools"]).map((tool) => text(tool)).filter((tool) => tool !== ""),
      guarantee: text(row["guarantee"]),
      repairs: number(row["repairs"]),
      error: text(row["error"]),
      us: number(row["us"]),
      live: row["live"] === true,
    })),
  };
}

// ---- Recordings --------------------------------------------------------------------------------

const pathOf = (name: string) => `/inspector/api/recordings/${name.split("/").map(encodeURIComponent).join("/")}`;

/// Feeds what the file has beyond what `recording` has read. `until` ends it early, for readers of a beginning.
export async function readOn(
  name: string, recording: Recording, signal: AbortSignal,
  progress: () => void = () => {}, until: () => boolean = () => false,
): Promise<void> {
  const response = await ask(`${pathOf(name)}?from=${recording.bytes}`, { signal });
  const reader = response.body?.getReader();
  if (!reader) return;
  let shown = performance.now();
  let pause = 500; // grows, because each drawing of a long recording costs more
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    recording.feed(value);
    if (until() || recording.bytes > kMostBytes) {
      await reader.cancel();
      return;
    }
    if (performance.now() - shown > pause) {
      // Lets the page draw what has come, and the user go away.
      progress();
      await new Promise((resolve) => setTimeout(resolve));
      shown = performance.now();
      pause *= 2;
    }
  }
}

const heads = new Map<string, Recording>();

/// The beginning of a recording up to its first prompt. What is read is kept, for 64 recordings.
export async function headOf(name: string, signal: AbortSignal): Promise<Recording> {
  const kept = heads.get(name);
  if (kept) return kept;
  const recording = new Recording();
  const isThere = () => recording.runs.length > 0 || recording.isWhole;
  await readOn(name, recording, signal, () => {}, isThere);
  if (heads.size >= 64) heads.delete(heads.keys().next().value!);
  if (isThere()) heads.set(name, recording);
  return recording;
}

// ---- Server-sent events ------------------------------------------------------------------------

/// Cuts a stream into the data of its events.
export class EventDecoder {
  #rest = "";
  #data: string[] = [];

  feed(chunk: string, take: (data: string) => void): void {
    const lines = (this.#rest + chunk).split("\n");
    this.#rest = lines.pop()!;
    for (const whole of lines) {
      const line = whole.endsWith("\r") ? whole.slice(0, -1) : whole;
      if (line === "") {
        if (this.#data.length > 0) take(this.#data.join("\n"));
        this.#data = [];
      } else if (line.startsWith("data:")) {
        this.#data.push(line.slice(line[5] === " " ? 6 : 5));
      }
    }
  }
  get isMidEvent(): boolean {
    return this.#rest !== "" || this.#data.length > 0;
  }
}
