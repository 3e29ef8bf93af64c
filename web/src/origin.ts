// Which message or tool each piece of data in a prompt came from. A recording says which bytes are data; the request says what data
// there was, in order. So each piece is looked up among the request's strings, from the place of the one before it on.

import { decode } from "./bytes.ts";
import { isObject, list, parsed, text, type Json, type JsonObject } from "./json.ts";
import type { Span } from "./recording.ts";

export interface Source {
  part: string; // "message 3, user"
  path: string; // "messages[3].content"
  order: number; // parts in the order of the request
  text: string;
}

const kMostSources = 200_000;
const kMostDepth = 12;
const squeezed = (source: string) => source.replace(/\s+/g, "");

/// The request's strings, by the message or tool that they are in.
export function sourcesOf(request: JsonObject): Source[] {
  const sources: Source[] = [];
  let order = 0;
  const leaves = (value: Json | undefined, part: string, path: string, depth = 0): void => {
    if (sources.length >= kMostSources || depth > kMostDepth || value === undefined || value === null) return;
    if (typeof value === "object") {
      // What templates write of an object is often its JSON.
      if (isObject(value) && depth > 0) sources.push({ part, path, order, text: JSON.stringify(value) });
      if (Array.isArray(value)) value.forEach((item, at) => leaves(item, part, `${path}[${at}]`, depth + 1));
      else for (const name of Object.keys(value)) leaves(value[name], part, `${path}.${name}`, depth + 1);
      return;
    }
    sources.push({ part, path, order, text: String(value) });
    if (typeof value === "string" && /^\s*[{[]/.test(value) && value.length < 1 << 20) {
      // Arguments of calls are JSON in a string; templates write it, or its members.
      const inner = parsed(value);
      if (inner !== undefined && typeof inner === "object") leaves(inner, part, path, depth + 1);
    }
  };
  for (const name of ["system", "instructions"]) {
    if (request[name] === undefined) continue;
    leaves(request[name], name, name);
    ++order;
  }
  for (const member of ["tools", "functions", "server_tools"]) {
    list(request[member]).forEach((tool, at) => {
      const inner = isObject(tool) ? (isObject(tool["function"]) ? tool["function"] : isObject(tool["custom"]) ? tool["custom"] : tool) : {};
      leaves(tool, `${member === "server_tools" ? "server tool" : "tool"} ${at}, ${text(inner["name"], "?")}`, `${member}[${at}]`, 1);
      ++order;
    });
  }
  for (const member of ["messages", "input"]) {
    const value = request[member];
    if (typeof value === "string") leaves(value, member, member);
    list(value).forEach((message, at) => {
      const role = isObject(message) ? text(message["role"]) || text(message["type"], "?") : "?";
      leaves(message, `message ${at}, ${role}`, `${member}[${at}]`);
      ++order;
    });
  }
  if (request["prompt"] !== undefined) leaves(request["prompt"], "prompt", "prompt");
  return sources;
}

/// The source of each span; undefined for the template's, and for data that is not in the request (a date, a variable).
export function originsOf(prompt: Uint8Array, spans: readonly Span[], request: JsonObject): (Source | undefined)[] {
  const sources = sourcesOf(request);
  const byText = new Map<string, number[]>();
  sources.forEach((source, at) => {
    const name = squeezed(source.text);
    const places = byText.get(name);
    if (places) places.push(at);
    else byText.set(name, [at]);
  });
  let cursor = 0; // messages come in order; tools are found wherever they stand
  const near = (places: readonly number[]): number => {
    let low = 0;
    let high = places.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (places[middle]! < cursor) low = middle + 1;
      else high = middle;
    }
    return low < places.length ? places[low]! : places[places.length - 1]!;
  };
  return spans.map((span) => {
    if (span.origin !== "data") return undefined;
    const source = decode(prompt.subarray(span.begin, span.end));
    const places = byText.get(squeezed(source));
    let found = places ? near(places) : -1;
    if (found < 0) found = partly(source, sources, cursor);
    if (found < 0) return undefined;
    // A string that was found whole is behind us, so that the next equal one is another message's.
    if (!sources[found]!.part.startsWith("tool ")) cursor = places ? found + 1 : found;
    return sources[found];
  });
}

// A span that is a piece of a string, or has a string in it: in the next strings, then in those before.
function partly(source: string, sources: readonly Source[], cursor: number): number {
  const wanted = source.trim();
  if (wanted === "") return cursor < sources.length ? cursor : -1;
  if (wanted.length > 1 << 20) return -1;
  const fits = (at: number): boolean => {
    const other = sources[at]!.text.trim();
    if (other.length > 1 << 20) return false;
    return (wanted.length > 2 && other.includes(wanted)) || (other.length > 7 && wanted.includes(other));
  };
  for (let step = 0; step < 256; ++step) if (cursor + step < sources.length && fits(cursor + step)) return cursor + step;
  for (let step = 1; step < 256; ++step) if (cursor - step >= 0 && fits(cursor - step)) return cursor - step;
  // The names of tools, which may stand far from the cursor.
  for (let at = 0; at < Math.min(sources.length, 4096) && sources[at]!.part.startsWith("tool "); ++at) if (fits(at)) return at;
  return -1;
}

export interface Part { name: string; path: string; begin: number; end: number; template: number; data: number; tokens: number | undefined }

/// The prompt in parts: the data of one message or tool with the template's text before it.
export function partsOf(spans: readonly Span[], origins: readonly (Source | undefined)[], borders: readonly number[] | undefined): Part[] {
  const parts: Part[] = [];
  let waiting: Span | undefined; // of the template
  spans.forEach((span, at) => {
    if (span.origin === "template") {
      waiting = span;
      return;
    }
    const source = origins[at];
    const name = source?.part ?? "data that is not in the request";
    const last = parts.at(-1);
    const template = waiting ? waiting.end - waiting.begin : 0;
    if (last && last.name === name) {
      last.end = span.end;
      last.template += template;
      last.data += span.end - span.begin;
    } else {
      const path = source ? source.path.replace(/(\[\d+\]).*$/, "$1") : "";
      parts.push({ name, path, begin: waiting?.begin ?? span.begin, end: span.end, template, data: span.end - span.begin, tokens: undefined });
    }
    waiting = undefined;
  });
  if (waiting) {
    const size = waiting.end - waiting.begin;
    parts.push({ name: parts.length > 0 ? "the template's end" : "the template", path: "", begin: waiting.begin, end: waiting.end, template: size, data: 0, tokens: undefined });
  }
  if (borders) {
    let token = 0;
    for (const part of parts) {
      const first = token;
      while (token < borders.length && borders[token]! < part.end) ++token;
      part.tokens = token - first;
    }
  }
  return parts;
}
