// What can be taken away from a recording: a row for `tenon parse --batch`, and the request as a command.

import { key } from "./api.ts";
import { decode, joined, encode } from "./bytes.ts";
import { isObject, list, text, type Json, type JsonObject } from "./json.ts";
import type { Recording, Run } from "./recording.ts";

/// Tokens that end within a character are joined with the next ones, because a JSON text has whole characters only.
export function chunksOf(run: Run): string[] {
  const chunks: string[] = [];
  const strict = new TextDecoder("utf-8", { fatal: true });
  let waiting: Uint8Array[] = [];
  const eos = text(run.madeBy["eos"]);
  run.tokens.forEach((token, at) => {
    if (at === run.tokens.length - 1 && token.control && token.text === eos) return;
    if (!token.raw && waiting.length === 0) {
      if (token.text !== "") chunks.push(token.text);
      return;
    }
    waiting.push(token.raw ?? encode(token.text));
    try {
      chunks.push(strict.decode(joined(waiting)));
      waiting = [];
    } catch {
      // not whole yet
    }
  });
  if (waiting.length > 0) chunks.push(decode(joined(waiting)));
  for (const piece of run.tokens.length === 0 ? run.pieces : []) if (piece.what === "text" || piece.what === "content") chunks.push(piece.text);
  return chunks;
}

// The tools in the shape of Chat Completions, which `parse` reads.
const chatTools = (request: JsonObject): Json[] =>
  [...list(request["tools"]), ...list(request["server_tools"])].filter(isObject).map((tool) => {
    if (isObject(tool["function"]) || isObject(tool["custom"])) return tool;
    const { name, description, parameters, input_schema: schema, strict } = tool;
    const made: JsonObject = { name: name ?? "" };
    if (description !== undefined) made["description"] = description;
    const used = parameters ?? schema;
    if (used !== undefined) made["parameters"] = used;
    if (strict !== undefined) made["strict"] = strict;
    return { type: "function", function: made };
  });

export function testRow(recording: Recording, run: Run): string {
  const request = recording.request;
  const row: JsonObject = { id: recording.head?.id ?? "", chunks: chunksOf(run) };
  const template = run.madeBy["template"];
  if (typeof template === "string" && template !== "") row["template"] = template;
  else row["format"] = text(run.madeBy["format"]) || (run.finish?.format ?? "");
  const tools = chatTools(request);
  if (tools.length > 0) row["tools"] = tools;
  const choice = request["tool_choice"];
  if (typeof choice === "string" || (isObject(choice) && isObject(choice["function"]))) row["tool_choice"] = choice;
  const tail = decode(run.prompt.subarray(Math.max(0, run.prompt.length - 256))) + run.opening;
  if (tail !== "") row["prompt_tail"] = tail.replace(/^\uFFFD+/, "");
  if (run.finish?.reason === "length") row["truncated"] = true;
  return JSON.stringify(row);
}

const quoted = (word: string) => `'${word.replaceAll("'", "'\\''")}'`;

export function curl(recording: Recording): string {
  const head = recording.head;
  const path = head?.path.startsWith("/") ? head.path : "/v1/chat/completions";
  const words = ["curl", quoted(location.origin + path), "-H", quoted("content-type: application/json")];
  if (key() !== "") words.push("-H", '"authorization: Bearer $TENON_API_KEY"');
  words.push("--data-raw", quoted(JSON.stringify(head?.request ?? {})));
  return words.join(" ");
}
