// Reads the lines of random_answers (../random_answers.cc) by OpenAI's and Anthropic's Node clients: each answer, streamed
// and whole, must be what it was made from. test_encoders.py runs this.
import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

let body, type;

// Cut anywhere, in the middle of a character too.
async function answer() {
  const bytes = new TextEncoder().encode(body);
  const stream = new ReadableStream({
    start(controller) {
      for (let at = 0, size = 1; at < bytes.length; at += size, size = (size * 7) % 1009) controller.enqueue(bytes.slice(at, at + size));
      controller.close();
    },
  });
  return new Response(stream, { headers: { "content-type": type } });
}

const openai = new OpenAI({ baseURL: "http://tenon/v1", apiKey: "x", maxRetries: 0, fetch: answer });
const anthropic = new Anthropic({ baseURL: "http://tenon", apiKey: "x", maxRetries: 0, fetch: answer });
const ask = { model: "m", messages: [{ role: "user", content: "hi" }] };

const streams = (encoded) => { body = encoded.stream; type = "text/event-stream"; };
const isWhole = (encoded) => { body = JSON.stringify(encoded.whole); type = "application/json"; };
const textOf = (parts, kind) => parts.filter((part) => part.kind === kind).map((part) => part.text).join("");
const isCall = (part) => part.kind === "call" || part.kind === "custom";
const callOf = ({ id, name, text }) => ({ id, name, text });

async function failure(promise) {
  try { await promise; } catch (error) { return error; }
  return null;
}

// Its stream helper has no word for a custom tool's call, and of reasoning it keeps the last piece.
async function checkChat({ truth, chat }) {
  if (truth.parts.some((part) => part.kind === "custom")) return;
  const read = ({ choices: [{ message, finish_reason }], usage }) => ({
    content: message.content || "", finish: finish_reason, tokens: usage.total_tokens,
    calls: (message.tool_calls ?? []).map((call) => ({ id: call.id, name: call.function.name, text: call.function.arguments })),
  });
  streams(chat);
  const streamed = openai.chat.completions.stream(ask).finalChatCompletion();
  if (truth.error) return assert.ok((await failure(streamed)).message.includes(truth.error));
  const expected = {
    content: textOf(truth.parts, "content"), finish: truth.finish, tokens: truth.usage.prompt + truth.usage.completion,
    calls: truth.parts.filter(isCall).map(callOf),
  };
  assert.deepEqual(read(await streamed), expected);
  isWhole(chat);
  assert.deepEqual(read(await openai.chat.completions.create(ask)), expected);
}

async function checkResponses({ truth, responses }) {
  const read = (response) => response.output.map((item) => {
    if (item.type === "message") return { kind: "content", text: item.content[0].text };
    if (item.type === "reasoning") return { kind: "reasoning", text: item.content[0].text };
    const kind = item.type === "function_call" ? "call" : "custom";
    return { kind, id: item.call_id, name: item.name, text: kind === "call" ? item.arguments : null };
  });
  // The input of a custom tool's call is compared with the whole answer's.
  const expected = truth.parts.map((part) => (isCall(part) ? { kind: part.kind, ...callOf(part), ...(part.kind === "custom" && { text: null }) } : part));
  streams(responses);
  const streamed = await openai.responses.stream({ model: "m", input: "hi" }).finalResponse();
  assert.deepEqual(read(streamed), expected);
  if (truth.error) return assert.equal(streamed.error.message, truth.error);
  isWhole(responses);
  const whole = await openai.responses.create({ model: "m", input: "hi" });
  assert.deepEqual(read(whole), expected);
  const inputs = (response) => response.output.map((item) => item.input);
  assert.deepEqual(inputs(streamed), inputs(whole));
  assert.deepEqual([streamed.usage, streamed.status], [whole.usage, whole.status]);
}

// The client's own parser of calls reads -0 as 0.
const plain = (value) => JSON.parse(JSON.stringify(value));

async function checkMessages({ truth, messages }) {
  // A call that was cut may become any object.
  const read = (message) => message.content.map((block, index) => {
    if (block.type === "text") return { kind: "content", text: block.text };
    if (block.type === "thinking") return { kind: "reasoning", text: block.thinking };
    return { kind: "call", id: block.id, name: block.name, input: truth.parts[index].is_cut ? typeof block.input : plain(block.input) };
  });
  const expected = truth.parts.map((part) => (isCall(part)
    ? { kind: "call", id: part.id, name: part.name, input: part.is_cut ? "object" : plain(JSON.parse(part.text)) } : part));
  streams(messages);
  const stream = anthropic.messages.stream({ ...ask, max_tokens: 1 });
  if (truth.error) return assert.ok((await failure(stream.finalMessage())).message.includes(JSON.stringify(truth.error).slice(1, -1)));
  const streamed = await stream.finalMessage();
  assert.deepEqual(read(streamed), expected);
  isWhole(messages);
  const whole = await anthropic.messages.create({ ...ask, max_tokens: 1 });
  assert.deepEqual(read(whole), expected);
  assert.deepEqual([streamed.stop_reason, streamed.stop_sequence], [whole.stop_reason, whole.stop_sequence]);
  const count = ({ usage }) => [usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens];
  assert.deepEqual(count(streamed), count(whole));
}

let read = 0;
for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const made = JSON.parse(line);
  for (const check of [checkChat, checkResponses, checkMessages]) {
    try { await check(made); } catch (error) { error.message = `answer ${read}, ${check.name}: ${error.message}`; throw error; }
  }
  ++read;
}
console.log(read);
