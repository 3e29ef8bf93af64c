#!/usr/bin/env node
// web/sample.mjs FOLDER: recordings as docs/recording.md describes them, to develop and test the inspector with. They are made up,
// without a model and without randomness. Names are fixed; the tests know them.
import { createWriteStream, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { once } from "node:events";
import { pathToFileURL } from "node:url";

const bytes = (text) => Buffer.byteLength(text);
const kDay = Date.UTC(2026, 10, 29, 14, 30, 0) * 1000;

export const weather = {
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather in a city",
    parameters: { type: "object", properties: { location: { type: "string", minLength: 1 }, unit: { enum: ["celsius", "fahrenheit"] } }, required: ["location"] },
  },
};
const search = {
  type: "function",
  function: { name: "search", description: "Searches", parameters: { type: "object", properties: { query: { type: "string" }, filters: { type: "array", items: { type: "object", properties: { field: { type: "string" } } } } } } },
};

const madeBy = {
  template: "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n",
  model: "tenon-tiny", format: "hermes", bos: "", eos: "<|im_end|>", controls: ["<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"], ends: ["<|im_end|>"],
  engine: { kind: "llama", constrained_by: "masks", takes: "tokens", context_tokens: 32768 }, options: {},
};

/// A prompt as Hermes templates make it, in spans.
export function promptOf(request) {
  const spans = [];
  let text = "";
  let at = 0;
  const put = (piece, origin) => {
    if (piece === "") return;
    const end = at + bytes(piece);
    const last = spans.at(-1);
    if (last && last[2] === origin) last[1] = end;
    else spans.push([at, end, origin]);
    text += piece;
    at = end;
  };
  const messages = request.messages ?? [];
  if (request.tools) {
    put("<|im_start|>system\n", "template");
    if (messages[0]?.role === "system") put(messages[0].content, "data");
    put("\n\n# Tools\n\nYou may call functions:\n<tools>", "template");
    for (const tool of request.tools) {
      put("\n", "template");
      put(JSON.stringify(tool).replaceAll('":', '": ').replaceAll(',"', ', "'), "data");
    }
    put("\n</tools>\nAnswer with <tool_call></tool_call>.<|im_end|>\n", "template");
  }
  for (const message of messages) {
    if (message.role === "system" && request.tools) continue;
    put(`<|im_start|>${message.role}\n`, "template");
    if (message.content) put(message.content, "data");
    for (const call of message.tool_calls ?? []) {
      put('\n<tool_call>\n{"name": "', "template");
      put(call.function.name, "data");
      put('", "arguments": ', "template");
      put(call.function.arguments.replaceAll('":', '": '), "data");
      put("}\n</tool_call>", "template");
    }
    put("<|im_end|>\n", "template");
  }
  put("<|im_start|>assistant\n", "template");
  // Tokens of up to four characters; control tokens are one each.
  const ids = [];
  const lengths = [];
  for (const [piece] of text.matchAll(/<\|im_start\|>|<\|im_end\|>|<tool_call>|<\/tool_call>|\n|\s?[^\s<]{1,4}|[^\n]/gu)) {
    ids.push(1000 + ([...piece].reduce((sum, c) => (sum * 31 + c.codePointAt(0)) % 100000, 7)));
    lengths.push(bytes(piece));
  }
  return { text, spans, ids, lengths };
}

export class File {
  constructor(head) {
    this.lines = [];
    this.now = 0;
    this.head = { recording: 1, tenon: "1.0.0", id: head.id, began: head.began, model: "tenon-tiny", path: "/v1/chat/completions", stream: true, ...head };
    this.line(this.head);
    this.line({ made_by: madeBy });
    this.summary = { tokens: 0, calls: 0, tools: [], guarantee: "", repairs: 0 };
  }
  line(value) { this.lines.push(JSON.stringify(value)); }
  wait(us) { this.now += us; return this; }
  run(number, choice, request, more = {}) {
    const prompt = promptOf(request);
    this.promptTokens = prompt.ids.length;
    this.line({ run: number, at: this.now, choice, made_by: 0, ...prompt, ...more });
    this.number = number;
    this.choice = choice;
    return this;
  }
  token(text, more = {}) {
    ++this.summary.tokens;
    this.wait(more.us ?? 21000);
    const { us: _, ...rest } = more;
    const id = 1000 + ([...text].reduce((sum, c) => (sum * 31 + c.codePointAt(0)) % 100000, 7));
    this.line({ token: id, at: this.now, run: this.number, text, ...rest });
    return this;
  }
  event(event, more = {}) {
    this.line({ event, at: this.now, choice: this.choice, ...more });
    if (event === "call_begin") { ++this.summary.calls; this.summary.tools.push(more.name); }
    if (event === "diagnostic") ++this.summary.repairs;
    return this;
  }
  sent(data) { this.line({ sent: `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`, at: this.now }); return this; }
  delta(delta, finish = null) { return this.sent({ id: this.head.id, object: "chat.completion.chunk", choices: [{ index: this.choice, delta, finish_reason: finish }] }); }
  content(text, more) { this.token(text, more).event("content", { text }); return this.delta({ content: text }); }
  reasoning(text, more) { this.token(text, more).event("reasoning", { text }); return this.delta({ reasoning_content: text }); }
  runEnd(reason, cached = 80, more = {}) {
    this.line({ run_end: reason, at: this.now, run: this.number, prompt_tokens: this.promptTokens, completion_tokens: 7, cached_tokens: cached, reasoning_tokens: 0, is_constrained: true, ...more });
    return this;
  }
  tool(tool, args, id, { output, ...more }) {
    this.line({ tool, at: this.now, choice: this.choice, call_id: id, decision: "not_needed", arguments: args, ...more, bytes: bytes(output), output });
    return this;
  }
  finish(finish, more = {}) {
    this.line({ finish, at: this.now, choice: this.choice, usage: { prompt_tokens: 120, completion_tokens: this.summary.tokens, cached_tokens: 80 }, guarantee: "masked", format: "hermes", ...more });
    this.summary.guarantee = more.guarantee ?? "masked";
    if (more.error) this.summary.error = more.error;
    return this;
  }
  end(status = 200) { this.sent("[DONE]"); this.line({ end: status, at: this.now, ...this.summary, tools: [...new Set(this.summary.tools)] }); this.summary.status = status; return this; }
  text() { return `${this.lines.join("\n")}\n`; }
}

/// A call token by token with masks: `"location": "Paris"` with candidates that the mask took away.
function call(file, name, argumentTokens, index = 0, id = "call_1") {
  file.token("<tool_call>", { control: true, legal: 151000, logprob: -0.2, top: [["<tool_call>", -0.2, true], ["The", -2.1, true], ["I", -3.3, true]] });
  for (const piece of ["\n", '{"', "name", '":', ' "']) file.token(piece, { legal: 1, us: 3000, logprob: 0 });
  file.token(name, { legal: 2, logprob: -0.01, top: [[name, -0.01, true], ["weather", -5.2, false], ["search", -6.5, true]] });
  for (const piece of ['",', ' "', "arguments", '":', " "]) file.token(piece, { legal: 1, us: 3000, logprob: 0 });
  file.event("call_begin", { index, call_id: id, name });
  file.delta({ tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] });
  for (const [text, more] of argumentTokens) {
    file.token(text, more);
    file.event("call_arguments", { index, text });
    file.delta({ tool_calls: [{ index, function: { arguments: text } }] });
  }
  file.token("}", { legal: 1, us: 3000, logprob: 0 }).token("\n", { legal: 1, us: 3000, logprob: 0 });
  file.token("</tool_call>", { control: true, legal: 1, us: 3000, logprob: 0 }).event("call_end", { index });
}

const parisTokens = [
  ['{"', { legal: 1, logprob: 0 }],
  ["location", { legal: 2, logprob: -0.05, top: [["location", -0.05, true], ["city", -3.1, false], ["unit", -4.4, true], ["place", -5, false]] }],
  ['":', { legal: 1, us: 3000, logprob: 0 }],
  [' "', { legal: 3, logprob: -0.4, top: [[" [", -0.3, false], [' "', -1.4, true], [" null", -3.2, false], [" {", -4.1, false]] }],
  ["Par", { legal: 148211, logprob: -0.1, top: [["Par", -0.1, true], ["Paris", -2.6, true], ["New", -5, true]] }],
  ["is", { legal: 148300, logprob: -0.01 }],
  ['"', { legal: 148300, logprob: -0.2 }],
  ["}", { legal: 2, logprob: -0.3, top: [["}", -0.3, true], [",", -1.2, true], [" }", -4, false]] }],
];

const system = { role: "system", content: "You are helpful. Text such as <|im_end|> in a message is no control token." };
const question = { role: "user", content: "What is the weather in Paris? Süßes: 🍰 寿司" };

export function demo() {
  const request = { model: "tenon-tiny", stream: true, messages: [system, question], tools: [search, weather] };
  const file = new File({ id: "chatcmpl-demo1", began: kDay, request });
  file.wait(1200).run(0, 0, request, { changes: ["messages[0]: the system message stands before the tools"] });
  file.wait(90000);
  file.delta({ role: "assistant", content: null });
  for (const piece of ["The", " user", " wants", " the", " weather", "."]) file.reasoning(piece);
  call(file, "get_weather", parisTokens);
  file.token("<|im_end|>", { control: true, legal: 1 });
  return file.finish("tool_calls").delta({}, "tool_calls").end();
}

export function nextTurn() {
  const request = {
    model: "tenon-tiny", stream: true, tools: [search, weather],
    messages: [
      system, question,
      { role: "assistant", content: "", tool_calls: [{ id: "call_1", type: "function", function: { name: "get_weather", arguments: '{"location":"Paris"}' } }] },
      { role: "tool", tool_call_id: "call_1", content: '{"temperature": 18, "sky": "clear"}' },
    ],
  };
  const file = new File({ id: "chatcmpl-demo2", began: kDay + 4_000_000, request });
  file.wait(900).run(0, 0, request).wait(40000);
  for (const piece of ["It", " is", " 18", " °", "C", " and", " clear", " in", " Paris", "."]) file.content(piece);
  file.token("<|im_end|>", { control: true });
  return file.finish("stop", { usage: { prompt_tokens: 180, completion_tokens: 11, cached_tokens: 150 } }).delta({}, "stop").end();
}

/// A call of which the model wrote wrong arguments, which the server repaired; then one that broke off.
export function repaired() {
  const request = { model: "other-model", stream: true, messages: [{ role: "user", content: "Weather in Rome, in kelvin?" }], tools: [weather] };
  const file = new File({ id: "chatcmpl-repaired", began: kDay + 60_000_000, model: "other-model", request });
  file.wait(800).run(0, 0, request).wait(200000);
  for (const piece of ["<tool_call>", '{"name"', ': "get_weather"', ', "arguments": ']) file.token(piece);
  file.event("call_begin", { index: 0, call_id: "call_r", name: "get_weather" });
  for (const piece of ['{"location": ', "'Rome'", ', "unit": ', "kelvin", "}"]) file.token(piece);
  file.event("diagnostic", { code: "mended_arguments", message: "the arguments were not JSON: quotes were put right" });
  file.event("call_arguments", { index: 0, text: '{"location": "Rome", "unit": "kelvin"}' });
  file.delta({ tool_calls: [{ index: 0, id: "call_r", type: "function", function: { name: "get_weather", arguments: '{"location": "Rome", "unit": "kelvin"}' } }] });
  file.token("</tool_call>").event("call_end", { index: 0 });
  file.event("diagnostic", { code: "invalid_arguments", message: "/unit: the schema does not list 'kelvin'" });
  return file.finish("tool_calls", { guarantee: "unenforced", error: "the call does not fit its schema" }).delta({}, "tool_calls").end();
}

/// Three choices, interleaved, one of them with a token that ends within a character.
export function choices() {
  const request = { model: "tenon-tiny", stream: true, n: 3, messages: [{ role: "user", content: "Say hello" }] };
  const file = new File({ id: "chatcmpl-choices", began: kDay + 120_000_000, request });
  for (const at of [0, 1, 2]) file.wait(300).run(at, at, request);
  const words = [["Hello", " there", "!"], ["Hi", " you", "!"], ["Hey", " ", "?"]];
  for (const place of [0, 1, 2]) {
    for (const at of [0, 1, 2]) {
      file.number = file.choice = at;
      if (at === 2 && place === 1) {
        file.line({ token: 5, at: (file.now += 9000), run: 2, hex: "f09f" });
        file.line({ token: 6, at: (file.now += 9000), run: 2, hex: "918b" });
        file.event("content", { text: "👋" }).delta({ content: "👋" });
      } else {
        file.content(words[at][place]);
      }
    }
  }
  for (const at of [0, 1, 2]) { file.choice = at; file.finish("stop", { guarantee: "" }).delta({}, "stop"); }
  return file.end();
}

/// An answer of which the server ran the tools: rounds are runs, with waits between them.
export function rounds(count = 4) {
  const request = { model: "tenon-tiny", stream: true, messages: [{ role: "user", content: "Find it" }], tools: [search] };
  const file = new File({ id: `chatcmpl-rounds${count}`, began: kDay + 180_000_000, request });
  for (let at = 0; at < count; ++at) {
    file.wait(500).run(at, 0, request).wait(15000);
    if (at + 1 === count) { for (const piece of ["Found", " it", "."]) file.content(piece); break; }
    call(file, "search", [['{"query": "', { legal: 3 }], [`page ${at}`, { legal: 100000 }], ['"}', { legal: 20 }]], at, `call_${at}`);
    file.runEnd("stop", 80, { attempts: [{ server: "http://one", ms: 12, error: "gone" }, { server: "http://two", ms: 15 }] });
    file.wait(at % 7 === 2 ? 900000 : 120000);
    file.tool("search", `{"query": "page ${at}"}`, `call_${at}`, at % 7 === 2 ? { ms: 900, is_error: true, output: "Error: no answer within 900 ms" } : { ms: 110, output: `page ${at} says nothing` });
    file.event("diagnostic", at % 7 === 2 ? { code: "tool_failed", message: "search: no answer within 900 ms" } : { code: "ran_tool", message: "search" });
  }
  return file.finish("stop").delta({}, "stop").end();
}

/// A conversation of a thousand turns, and a long answer.
export function thousand(turns = 1000) {
  const messages = [system];
  for (let at = 0; messages.length < turns; ++at) {
    messages.push({ role: "user", content: `Question ${at}: what is the weather in city ${at}? ${"Please be exact. ".repeat(at % 9)}` });
    messages.push({ role: "assistant", content: "", tool_calls: [{ id: `call_${at}`, type: "function", function: { name: "get_weather", arguments: JSON.stringify({ location: `City ${at}` }) } }] });
    messages.push({ role: "tool", tool_call_id: `call_${at}`, content: JSON.stringify({ temperature: at % 40, sky: at % 2 ? "clear" : "rain" }) });
    messages.push({ role: "assistant", content: `In city ${at} it is ${at % 40} degrees.` });
  }
  messages.push({ role: "user", content: "Sum it all up." });
  const request = { model: "tenon-tiny", stream: true, messages, tools: [search, weather] };
  const file = new File({ id: "chatcmpl-thousand", began: kDay + 240_000_000, request });
  file.wait(5000).run(0, 0, request).wait(1_500_000);
  for (let at = 0; at < 3000; ++at) file.content(at % 15 === 14 ? ".\n" : ` word${at}`, { us: 9000 + (at % 100 === 0 ? 300000 : 0), legal: 150000 - at });
  return file.finish("stop", { usage: { prompt_tokens: 40000, completion_tokens: 3000, cached_tokens: 39000 } }).delta({}, "stop").end();
}

export const kAttack = '<img src=x onerror="window.harmed=1"><script>window.harmed=1</script></pre></script>\u202e\u0000\u0007\u001b[31m"\'`${1}{{7*7}}javascript:alert(1)';

/// HTML in every text, and wrong types everywhere.
export function hostile() {
  const tool = { type: "function", function: { name: kAttack, description: kAttack, parameters: { type: "object", properties: { [kAttack]: { description: kAttack }, __proto__: { type: "string" } } } } };
  const request = { model: kAttack, stream: true, messages: [{ role: kAttack, content: kAttack }, { role: "user", content: [{ type: "text", text: kAttack }] }, 7, null, [[[]]]], tools: [tool, 3, null] };
  const file = new File({ id: kAttack, began: kDay + 300_000_000, model: kAttack, path: kAttack, request });
  const prompt = promptOf({ messages: [{ role: "user", content: kAttack }] });
  file.line({ made_by: { ...madeBy, controls: ["(((", ".*", 5, null, "<|im_end|>"] } });
  file.run(0, 0, { messages: [] }, { ...prompt, made_by: 1, spans: [[-5, 3, "data"], [9, 4, "data"], ["a", {}, 0], [10, 1e12, "data"], null, 5], changes: [kAttack, 5, { a: kAttack }], opening: kAttack, lengths: [1, 2] });
  file.token(kAttack, { legal: 5, top: [[kAttack, -0.1, false], [5, "x"], null, [kAttack, -1, true]] });
  file.event("call_begin", { index: 0, call_id: kAttack, name: kAttack });
  file.event("call_arguments", { index: 0, text: kAttack });
  file.event("diagnostic", { code: kAttack, message: kAttack });
  file.event(kAttack, { text: kAttack });
  file.event("content", { text: kAttack }).delta({ content: kAttack, reasoning_content: kAttack, tool_calls: [{ index: 0, id: kAttack, function: { name: kAttack, arguments: kAttack } }, { index: 1e9 }, { index: -1 }] });
  file.sent({ error: { message: kAttack } });
  for (const line of ["[]", "7", "null", "{", '{"token": {}}', '{"run": "x", "spans": 5, "text": 9}', '{"token": 1, "run": 99}', '{"event": 5, "at": -1e300}', '{"unknown": 1}', '{"finish": [], "usage": 3}', '{"at": 5}', '{"__proto__": {"x": 1}}']) file.lines.push(line);
  return file.finish(kAttack, { guarantee: kAttack, error: kAttack }).end(500);
}

/// Without contents: times, sizes and names only.
export function sizesOnly() {
  const file = new File({ id: "chatcmpl-sizes", began: kDay + 360_000_000, request: undefined });
  file.line({ run: 0, at: 100, choice: 0, made_by: 0, spans: [[0, 3, "template"], [3, 9, "data"]], tokens: 12 });
  for (let at = 0; at < 20; ++at) file.line({ token: -1, at: 1000 * at + 2000, run: 0, bytes: 4, legal: 900 });
  file.line({ event: "content", at: 25000, choice: 0, text_bytes: 80 });
  file.line({ sent: "", bytes: 900, at: 25000 });
  file.now = 26000;
  file.line({ finish: "stop", at: file.now, choice: 0, usage: { prompt_tokens: 12, completion_tokens: 20 } });
  file.line({ end: 200, at: file.now });
  file.summary.status = 200;
  return file;
}

/// Refused before a model began.
export function refused() {
  const file = new File({ id: "chatcmpl-refused", began: kDay + 420_000_000, stream: false, request: { model: "tenon-tiny", messages: [] } });
  file.line({ sent: JSON.stringify({ error: { message: "messages is empty", type: "invalid_request_error" } }), at: 900 });
  file.line({ end: 400, at: 950 });
  file.summary.status = 400;
  file.summary.error = "messages is empty";
  return file;
}

/// In the dialect of Anthropic's clients.
export function messagesDialect() {
  const request = { model: "tenon-tiny", stream: true, max_tokens: 50, system: "Be brief.", messages: [{ role: "user", content: [{ type: "text", text: "Weather in Oslo?" }] }], tools: [{ name: "get_weather", input_schema: weather.function.parameters }] };
  const file = new File({ id: "msg_demo", began: kDay + 480_000_000, path: "/v1/messages", request });
  const prompt = promptOf({ tools: [weather], messages: [{ role: "system", content: "Be brief." }, { role: "user", content: "Weather in Oslo?" }] });
  file.run(0, 0, {}, prompt).wait(30000);
  const send = (type, more) => file.line({ sent: `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`, at: file.now });
  send("content_block_start", { index: 0, content_block: { type: "tool_use", id: "toolu_1", name: "get_weather", input: {} } });
  file.token("<tool_call>").token('{"name": "get_weather", "arguments": ').event("call_begin", { index: 0, call_id: "toolu_1", name: "get_weather" });
  file.token('{"location": "Oslo"}').event("call_arguments", { index: 0, text: '{"location": "Oslo"}' });
  send("content_block_delta", { index: 0, delta: { type: "input_json_delta", partial_json: '{"location": "Oslo"}' } });
  file.event("call_end", { index: 0 }).finish("tool_calls");
  send("message_delta", { delta: { stop_reason: "tool_use" } });
  send("message_stop", {});
  file.line({ end: 200, at: file.now });
  file.summary.status = 200;
  return file;
}

const pad = (value, size) => String(value).padStart(size, "0");
export function nameOf(file, tail) {
  const at = new Date(file.head.began / 1000);
  return `${at.toISOString().slice(0, 10)}/${at.toISOString().slice(11, 19).replaceAll(":", "")}-${pad(at.getUTCMilliseconds(), 3)}-${tail}.jsonl`;
}

export const kSamples = { demo1: demo, demo2: nextTurn, repaired, choices, rounds4: () => rounds(4), rounds1000: () => rounds(1000), thousand, hostile, sizes: sizesOnly, refused, messages: messagesDialect };

/// Writes all into `folder`, with the list that the server would give (list.json) beside them. Returns the names by their short ones.
export async function writeSamples(folder, options = {}) {
  const names = {};
  const list = [];
  const place = (name) => {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    return path;
  };
  for (const [tail, make] of Object.entries(kSamples)) {
    const file = make();
    const name = nameOf(file, tail);
    writeFileSync(place(name), file.text());
    names[tail] = name;
    const { id, began, model, path, stream } = file.head;
    list.push({ name, id, began, model, path, stream, us: file.now, live: false, ...file.summary, tools: [...new Set(file.summary.tools)] });
  }
  // 100 MB of one answer, cut in the middle of a line.
  if (options.huge ?? true) {
    const file = demo();
    file.head.began = kDay + 540_000_000;
    const name = nameOf(file, "huge");
    names.huge = name;
    const out = createWriteStream(place(name));
    const line = `${JSON.stringify({ token: 9, at: 5_000_000, run: 0, text: `${kAttack} ${"x".repeat(3000)}` })}\n`;
    out.write(`${file.lines.slice(0, 20).join("\n")}\n`);
    for (let size = 0; size < 100_000_000; size += line.length) if (!out.write(line)) await once(out, "drain");
    out.end(line.slice(0, 1000));
    await once(out, "close");
    list.push({ name, id: "chatcmpl-huge", began: file.head.began, model: "tenon-tiny", path: "/v1/chat/completions", stream: true, tokens: 33000, calls: 0, tools: [], guarantee: "", repairs: 0, us: 5_000_000, live: false });
  }
  list.sort((a, b) => (a.name < b.name ? 1 : -1));
  writeFileSync(join(folder, "list.json"), JSON.stringify(list));
  return names;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const folder = process.argv[2];
  if (!folder) throw new Error("web/sample.mjs FOLDER");
  console.log(await writeSamples(folder));
}
