// The playground's side of a conversation: what is asked, and the answer as it comes.

import { ask } from "./api.ts";
import { ClientFold, type ClientView } from "./client_view.ts";
import { isObject, list, parsed, type Json, type JsonObject } from "./json.ts";

export interface Asked { model: string; messages: JsonObject[]; tools: Json[]; toolChoice: string }

/// The tools as the user wrote them: a list of tools, or of functions. A mistake is a sentence.
export function toolsOf(source: string): { tools: Json[]; mistake: string } {
  if (source.trim() === "") return { tools: [], mistake: "" };
  const value = parsed(source);
  if (value === undefined) {
    try {
      JSON.parse(source);
    } catch (error) {
      return { tools: [], mistake: `The tools are not JSON: ${error instanceof Error ? error.message : String(error)}` };
    }
  }
  const rows = Array.isArray(value) ? value : [value as Json];
  for (const row of rows) if (!isObject(row)) return { tools: [], mistake: "The tools are a list of objects." };
  return { tools: rows.map((row) => (isObject(row) && row["type"] === undefined && row["name"] !== undefined ? { type: "function", function: row } : row)), mistake: "" };
}

export interface Reply { view: ClientView; us: number; usage: JsonObject }

/// Asks, and tells each time that more of the answer is there.
export async function chat(asked: Asked, signal: AbortSignal, progress: (reply: Reply) => void): Promise<Reply> {
  const body: JsonObject = { model: asked.model, messages: asked.messages, stream: true, stream_options: { include_usage: true } };
  if (asked.model === "") delete body["model"];
  if (asked.tools.length > 0) {
    body["tools"] = asked.tools;
    if (asked.toolChoice !== "auto") body["tool_choice"] = asked.toolChoice;
  }
  const began = performance.now();
  const response = await ask("/v1/chat/completions", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal });
  const fold = new ClientFold("/v1/chat/completions", true);
  const reply: Reply = { view: fold.view, us: 0, usage: {} };
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  for (;;) {
    const { done, value } = await reader.read();
    const piece = done ? decoder.decode() : decoder.decode(value, { stream: true });
    const usage = /"usage":(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})/.exec(piece)?.[1];
    if (usage) {
      const read = parsed(usage);
      if (isObject(read)) reply.usage = read;
    }
    fold.feed(piece);
    reply.us = (performance.now() - began) * 1000;
    progress({ ...reply });
    if (done) return { ...reply };
  }
}

/// What the answer becomes in the next request.
export function assistantMessage(view: ClientView): JsonObject {
  const choice = view.choices.get(0);
  const message: JsonObject = { role: "assistant", content: choice?.content ?? "" };
  const calls = choice?.calls ?? [];
  if (calls.length > 0) message["tool_calls"] = calls.map((call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.input } }));
  return message;
}

export interface ModelRow { id: string; aliases: string[]; loaded: boolean; format: string; context: number | undefined; engine: string }

export function modelsOf(body: unknown): ModelRow[] {
  return list(isObject(body) ? body["data"] : []).filter(isObject).map((row) => ({
    id: String(row["id"] ?? ""),
    aliases: list(row["aliases"]).map(String),
    loaded: row["loaded"] === true,
    format: typeof row["tool_call_format"] === "string" ? row["tool_call_format"] : "",
    context: typeof row["context_length"] === "number" ? row["context_length"] : undefined,
    engine: typeof row["engine"] === "string" ? row["engine"] : "",
  }));
}

export interface Sample { name: string; labels: Map<string, string>; value: number }

/// The samples of Prometheus' text form, without histograms' buckets.
export function samplesOf(source: string): Sample[] {
  const samples: Sample[] = [];
  for (const line of source.split("\n")) {
    const found = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!found || found[1]!.endsWith("_bucket")) continue;
    const labels = new Map<string, string>();
    for (const label of (found[2] ?? "").matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g)) {
      labels.set(label[1]!, label[2]!.replace(/\\(.)/g, (_, c: string) => (c === "n" ? "\n" : c)));
    }
    samples.push({ name: found[1]!, labels, value: Number(found[3]) });
  }
  return samples;
}
