// What the pages compute, without a browser: reading recordings, folding streams, finding where bytes came from.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "vite";
import { choices, demo, hostile, kSamples, messagesDialect, nextTurn, promptOf, repaired, rounds, sizesOnly, weather } from "../sample.mjs";

const folder = mkdtempSync(join(tmpdir(), "tenon-web-"));
after(() => rmSync(folder, { recursive: true }));
await build({
  configFile: false, logLevel: "error",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: { outDir: folder, emptyOutDir: false, minify: false, lib: { entry: fileURLToPath(new URL("parts.ts", import.meta.url)), formats: ["es"], fileName: () => "parts.mjs" } },
});
const parts = await import(pathToFileURL(join(folder, "parts.mjs")).href);
globalThis.sessionStorage = { getItem: () => null };
globalThis.location = { origin: "http://localhost:8080" };

const recordingOf = (text, cut = 0) => {
  const bytes = Buffer.from(text);
  const recording = new parts.Recording();
  recording.feed(bytes.subarray(0, cut));
  recording.feed(bytes.subarray(cut));
  return recording;
};
const shape = (recording) => JSON.stringify({ steps: recording.steps.map(({ run, token, ...step }) => ({ ...step, run: run?.number, token: token?.index })), status: recording.status, broken: recording.brokenLines });

test("a recording does not depend on how its bytes are cut", () => {
  const text = choices().text();
  const whole = shape(recordingOf(text));
  for (let cut = 0; cut <= Buffer.byteLength(text); ++cut) assert.equal(shape(recordingOf(text, cut)), whole, `cut at ${cut}`);
});

test("a recording that ends anywhere is read up to its last whole line", () => {
  const text = demo().text();
  const lines = text.split("\n");
  for (let size = 0; size < text.length; size += 97) {
    const recording = recordingOf(text.slice(0, size));
    assert.equal(recording.brokenLines, 0);
    assert.equal(recording.isWhole, false);
    // Two lines, the head and made_by, are no steps.
    const whole = lines.filter((_, at) => lines.slice(0, at + 1).join("\n").length < size).length;
    assert.equal(recording.steps.length, Math.max(0, whole - 2), `at ${size}`);
  }
});

test("tokens know what the parser made of them", () => {
  const states = recordingOf(demo().text()).runs[0].tokens.map((token) => [token.text, token.state]);
  for (const row of [["The", "reasoning"], ["<tool_call>", "marker"], ["get_weather", "marker"], ["Par", "arguments"], ["</tool_call>", "marker"]]) {
    assert.deepEqual(states.find(([text]) => text === row[0]), row);
  }
  // The quotes that a repair put right are in no event.
  const rome = recordingOf(repaired().text()).runs[0].tokens.find((token) => token.text === "'Rome'");
  assert.equal(rome.state, "marker");
});

test("a fork says what it is one of", () => {
  const head = (more) => recordingOf(JSON.stringify({ recording: 1, id: "req_2", ...more, request: {} }) + "\n").head.replayOf;
  assert.deepEqual(head({ replay_of: { id: "req_1", began: 7, tokens: 12 } }), { id: "req_1", tokens: 12 });
  assert.equal(head({}), undefined);
  assert.equal(head({ replay_of: "req_1" }), undefined);
});

test("an answer without an end has failed unless it is under way", () => {
  for (const [entry, unfinished, failed] of [
    [{ live: true, error: "" }, false, false],
    [{ live: false, error: "" }, true, true],
    [{ live: false, error: "", status: 200 }, false, false],
    [{ live: false, error: "", status: 499 }, false, true],
    [{ live: false, error: "gone", status: 200 }, false, true],
  ]) {
    assert.deepEqual([parts.isUnfinished(entry), parts.isFailed(entry)], [unfinished, failed], JSON.stringify(entry));
  }
});

test("bytes that are not whole characters are joined", () => {
  const run = recordingOf(choices().text()).runs[2];
  assert.equal(Buffer.from(parts.outputOf(run)).toString(), "Hey👋?");
  assert.deepEqual(run.tokens.map((token) => token.state), ["content", "content", "content", "content"]);
  assert.deepEqual(parts.chunksOf(run), ["Hey", "👋", "?"]);
});

test("what is hostile or of another type is left out, and nothing fails", () => {
  const recording = recordingOf(hostile().text());
  assert.equal(recording.status, 500);
  assert.equal(recording.brokenLines, 4); // [], 7, null and {
  for (const run of recording.runs) {
    let at = 0;
    for (const span of run.spans) {
      assert.equal(span.begin, at);
      assert.ok(span.end > span.begin);
      at = span.end;
    }
    assert.equal(at, run.prompt.length);
    parts.originsOf(run.prompt, run.spans, recording.head.request);
    JSON.parse(parts.testRow(recording, run));
  }
  for (const text of ["", "\n", "x", "{}", '{"token": 1}\n', "null\n", '{"recording": 1}\n{"end": 200}', "\ufeff"]) recordingOf(text);
  assert.equal(recordingOf(sizesOnly().text()).runs[0].tokens.length, 20);
});

test("spans find the message and tool that they came from", () => {
  for (const make of Object.values(kSamples)) {
    const recording = recordingOf(make().text());
    const request = recording.head.request;
    if (make === kSamples.hostile || !Array.isArray(request.messages) || recording.runs.length === 0) continue;
    for (const run of recording.runs.slice(0, 2)) {
      const origins = parts.originsOf(run.prompt, run.spans, request);
      run.spans.forEach((span, at) => {
        const text = Buffer.from(run.prompt.subarray(span.begin, span.end)).toString();
        if (span.origin === "data") assert.ok(origins[at], `${recording.head.id}: ${text}`);
        else assert.equal(origins[at], undefined);
      });
    }
  }
  const recording = recordingOf(nextTurn().text());
  const run = recording.runs[0];
  const paths = parts.originsOf(run.prompt, run.spans, recording.head.request).filter(Boolean).map((source) => source.path);
  assert.deepEqual(paths, ["messages[0].content", "tools[0]", "tools[1]", "messages[1].content", "messages[2].tool_calls[0].function.name", "messages[2].tool_calls[0].function.arguments", "messages[3].content"]);
});

test("equal messages are told apart by their order", () => {
  const request = { messages: ["same", "other", "same", "same"].map((content) => ({ role: "user", content })) };
  const { text, spans } = promptOf(request);
  const rows = spans.map(([begin, end, origin]) => ({ begin, end, origin }));
  const found = parts.originsOf(Buffer.from(text), rows, request).filter(Boolean).map((source) => source.path);
  assert.deepEqual(found, [0, 1, 2, 3].map((at) => `messages[${at}].content`));
});

test("parts have all bytes and all tokens of the prompt", () => {
  for (const make of [demo, nextTurn, kSamples.thousand]) {
    const recording = recordingOf(make().text());
    const run = recording.runs[0];
    const borders = [];
    let at = 0;
    for (const length of run.lengths) {
      borders.push(at);
      at += length;
    }
    const list = parts.partsOf(run.spans, parts.originsOf(run.prompt, run.spans, recording.head.request), borders);
    assert.equal(list.reduce((sum, part) => sum + part.data + part.template, 0), run.prompt.length);
    assert.equal(list.reduce((sum, part) => sum + part.tokens, 0), run.ids.length);
  }
});

const viewOf = (recording, steps = recording.steps.length) => {
  const fold = new parts.ClientFold(recording.head.path, recording.head.stream);
  for (const step of recording.steps.slice(0, steps)) if (step.kind === "sent") fold.feed(step.text);
  return fold.view;
};

test("the client's view is what was sent, in each dialect", () => {
  const rows = [
    [demo(), { reasoning: "The user wants the weather.", content: "", calls: [{ id: "call_1", name: "get_weather", input: '{"location": "Paris"}' }], finish: "tool_calls" }],
    [nextTurn(), { reasoning: "", content: "It is 18 °C and clear in Paris.", calls: [], finish: "stop" }],
    [messagesDialect(), { reasoning: "", content: "", calls: [{ id: "toolu_1", name: "get_weather", input: '{"location": "Oslo"}' }], finish: "tool_use" }],
  ];
  for (const [file, expected] of rows) {
    const view = viewOf(recordingOf(file.text()));
    assert.deepEqual(view.choices.get(0), expected);
    assert.equal(view.isDone, true);
  }
  const three = viewOf(recordingOf(choices().text()));
  assert.deepEqual([0, 1, 2].map((at) => three.choices.get(at).content), ["Hello there!", "Hi you!", "Hey👋?"]);
});

test("at each cut the client knows a beginning of what it knows later", () => {
  const recording = recordingOf(demo().text());
  let before = "";
  for (let steps = 0; steps <= recording.steps.length; ++steps) {
    const view = viewOf(recording, steps);
    const now = JSON.stringify(view.choices.get(0)?.calls[0]?.input ?? "").slice(0, -1);
    assert.ok(now.startsWith(before), `${before} then ${now}`);
    before = now;
  }
});

test("whole documents and Responses are folded too", () => {
  const fold = (path, stream, sent) => {
    const made = new parts.ClientFold(path, stream);
    for (const piece of sent) made.feed(piece);
    return made.view;
  };
  const chat = fold("/v1/chat/completions", false, ['{"choices": [{"index": 0, "message": {"content": "hi"}, ', '"finish_reason": "stop"}], "tenon": {"guarantee": "masked"}}']);
  assert.equal(chat.choices.get(0).content, "hi");
  assert.equal(chat.guarantee, "masked");
  const cut = fold("/v1/chat/completions", false, ['{"choices": [']);
  assert.equal(cut.isMidEvent, true);
  const event = (type, more) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
  const responses = fold("/v1/responses", true, [
    event("response.output_item.added", { output_index: 0, item: { type: "message" } }), event("response.output_text.delta", { output_index: 0, delta: "hi" }),
    event("response.output_item.added", { output_index: 1, item: { type: "function_call", call_id: "c", name: "f" } }), event("response.function_call_arguments.delta", { output_index: 1, delta: "{}" }),
    event("response.completed", { response: { status: "completed" } }),
  ]);
  assert.deepEqual(responses.choices.get(0), { reasoning: "", content: "hi", calls: [{ id: "c", name: "f", input: "{}" }], finish: "completed" });
  const failed = fold("/v1/chat/completions", true, ['data: {"error": {"message": "no"}}\n\n', "data: [DONE]\n\n"]);
  assert.equal(failed.error, "no");
});

test("the place in arguments that are being written", () => {
  const rows = [
    ["", [], "before the arguments"], ["{", [], "before a name"], ['{"loc', [], "a name"], ['{"location"', ["location"], "before a colon"],
    ['{"location": ', ["location"], "before a value"], ['{"location": "Pa', ["location"], "a string"], ['{"location": "Pa\\"', ["location"], "a string"],
    ['{"location": "Paris"', ["location"], "behind a value"], ['{"location": "Paris", ', [], "before a name"], ['{"a": {"b": [1, {"c": tr', ["a", "b", "1", "c"], "a number or word"],
    ['{"a": [1, 2', ["a", "1"], "a number or word"], ['{"a": 1}', [], "behind the arguments"], ["]]]]", [], "behind the arguments"],
  ];
  for (const [written, path, within] of rows) assert.deepEqual(parts.placeIn(written), { path, within }, written);
  const root = { properties: { a: { type: "array", items: { $ref: "#/$defs/item" } } }, $defs: { item: { properties: { c: { type: "boolean" } } } } };
  assert.deepEqual(parts.schemaAt(root, ["a", "1", "c"]), { schemaPath: "#/$defs/item/properties/c", schema: { type: "boolean" } });
  assert.deepEqual(parts.schemaAt({ $ref: "#" }, ["x"]), { schemaPath: "#", schema: { $ref: "#" } });
});

test("a test row is a line for tenon parse --batch", () => {
  const recording = recordingOf(demo().text());
  const row = JSON.parse(parts.testRow(recording, recording.runs[0]));
  assert.equal(row.chunks.join(""), 'The user wants the weather.<tool_call>\n{"name": "get_weather", "arguments": {"location": "Paris"}}\n</tool_call>');
  assert.deepEqual(row.tools[1], weather);
  assert.ok(row.prompt_tail.endsWith("<|im_start|>assistant\n"));
  // Anthropic's tools become those of Chat Completions.
  const other = recordingOf(messagesDialect().text());
  assert.deepEqual(JSON.parse(parts.testRow(other, other.runs[0])).tools[0], { type: "function", function: { name: "get_weather", parameters: weather.function.parameters } });
});

test("a command of curl has no quote that ends early", () => {
  const recording = recordingOf(hostile().text());
  const command = parts.curl(recording);
  // As the shell reads it: what is outside of quotes is the few words that we wrote.
  assert.equal(command.replaceAll("'\\''", "").replace(/'[^']*'/g, "Q"), "curl Q -H Q --data-raw Q");
});

test("waits for tools are between runs", () => {
  const text = rounds(4).text();
  const rows = parts.waterfallRows(recordingOf(text));
  assert.deepEqual(rows.map((row) => row.label), ["run 0", "tool search", "run 1", "tool search", "run 2", "tool search", "run 3"]);
  assert.deepEqual(rows.filter((row) => row.isBad).map((row) => row.note), ["900 ms: failed, 30 bytes"]);
  assert.match(rows[0].note, /; http:\/\/one failed: gone; by http:\/\/two$/);
  // A call that was approved runs before the first run, and several begin together.
  const lines = [
    { recording: 1, id: "x", began: 0, request: {} }, { made_by: {} }, { tools: [{ name: "a", server: "", parameters: {} }], at: 1, choice: 0 },
    { tool: "a", at: 5000, choice: 0, ms: 4, bytes: 1, output: "x" }, { tool: "b", at: 5001, choice: 0, ms: 2, bytes: 1, output: "y" },
    { run: 0, at: 6000, choice: 0, made_by: 0, text: "p", ids: [1] }, { token: 1, at: 7000, run: 0, text: "z" }, { end: 200, at: 8000 },
  ];
  const early = parts.waterfallRows(recordingOf(lines.map((line) => JSON.stringify(line) + "\n").join("")));
  assert.deepEqual(early.map((row) => [row.label, row.bars[0].from, row.bars.at(-1).to]), [["tool a", 1000, 5000], ["tool b", 1000, 3000], ["run 0", 6000, 7000]]);
  // A recording of an earlier version has no lines of tools.
  const old = parts.waterfallRows(recordingOf(text.split("\n").filter((line) => !line.startsWith('{"tool"')).join("\n")));
  assert.deepEqual(old.map((row) => row.label), ["run 0", "tools", "run 1", "tools", "run 2", "tools", "run 3"]);
  assert.deepEqual(old.filter((row) => row.isBad).map((row) => row.note), ["901 ms: search: no answer within 900 ms"]);
});

test("the models that a recursive model asks have rows of their own", () => {
  const run = (number, at, part) => ({ run: number, at, choice: 0, part, made_by: 0, text: "p", ids: [1] });
  const token = (run, at, text) => ({ token: 5, at, run, text });
  const lines = [
    { recording: 1, id: "x", began: 0, request: {} }, { made_by: {} },
    run(0, 10, "root"), token(0, 20, "code"), { run_end: "stop", at: 30, run: 0 },
    run(1, 40, "question"), run(2, 41, "question"), token(2, 50, "two"), token(1, 60, "one"), { run_end: "stop", at: 61, run: 1 }, { run_end: "stop", at: 70, run: 2 },
    run(3, 90, "root"), token(3, 95, "FINAL(3)"), { run_end: "stop", at: 96, run: 3 },
    { event: "content", at: 97, choice: 0, text: "3" }, { finish: "stop", at: 98, choice: 0 }, { end: 200, at: 99 },
  ];
  const recording = recordingOf(lines.map((line) => JSON.stringify(line) + "\n").join(""));
  const rows = parts.waterfallRows(recording);
  assert.deepEqual(rows.map((row) => row.label), ["root 0", "question 1", "question 2", "code and its questions", "root 3"]);
  assert.deepEqual(rows.map((row) => [row.bars[0].from, row.bars.at(-1).to]), [[10, 30], [40, 61], [41, 70], [30, 90], [90, 96]]);
  assert.deepEqual(recording.runs.map((one) => one.events.length), [0, 0, 0, 0]); // the client's text is not the last run's
});

test("rows of a text end at newlines and at the width, and cover it", () => {
  for (const text of ["", "\n", "a", "a\nb", "é".repeat(50), "寿司🍰".repeat(30), `${"x".repeat(20)}\n${"y".repeat(20)}`]) {
    const bytes = Buffer.from(text);
    const rows = parts.rowsOf(bytes, 20);
    assert.equal(rows[0], 0);
    assert.equal(rows.at(-1), bytes.length);
    let joined = "";
    for (let at = 0; at + 1 < rows.length; ++at) joined += bytes.subarray(rows[at], rows[at + 1]).toString();
    assert.equal(joined, text); // no character is cut
  }
  assert.deepEqual([...parts.rowsOf(Buffer.from(`${"x".repeat(20)}\ny`), 20)], [0, 21, 22]);
  for (const text of ["", "é", "寿", "🍰", "a🍰é"]) assert.equal(parts.utf8Size(text), Buffer.byteLength(text));
});

test("an address says what is looked at, and odd ones are harmless", () => {
  const place = { name: "2026-11-29/a b%?.jsonl", view: "masks", run: 2, token: 7, byte: -1, step: 9 };
  assert.deepEqual(parts.placeOf(parts.hashOf(place)), place);
  assert.deepEqual(parts.placeOf("#%E0%A4%A?view=<b>&token=-5&run=1e9&step=99999999999"), { name: "", view: "timeline", run: 0, token: -1, byte: -1, step: -1 });
});

test("a conversation goes on with the same messages and more", () => {
  const turn = (content) => ({ role: "user", content });
  const ask = (...contents) => ({ messages: contents.map(turn) });
  assert.equal(parts.continues(ask("a", "b"), ask("a")), true);
  assert.equal(parts.continues(ask("a", "b"), ask("b")), false);
  assert.equal(parts.continues(ask("a"), ask("a")), false);
  assert.equal(parts.continues(ask("a"), ask()), false);
});

test("figures and tools of the first page", () => {
  assert.deepEqual(parts.samplesOf('# x\na{b="c\\"d,e",f="g"} 5\nh 1e3\ni_bucket{le="1"} 2\nnot a sample\n'), [
    { name: "a", labels: new Map([["b", 'c"d,e'], ["f", "g"]]), value: 5 }, { name: "h", labels: new Map(), value: 1000 },
  ]);
  assert.deepEqual(parts.toolsOf('[{"name": "f"}, {"type": "custom", "custom": {"name": "g"}}]').tools, [{ type: "function", function: { name: "f" } }, { type: "custom", custom: { name: "g" } }]);
  assert.match(parts.toolsOf("[{").mistake, /not JSON/);
  assert.notEqual(parts.toolsOf("[5]").mistake, "");
  assert.equal(parts.visible("a\u202eb\u0000\u001b"), "a⟨U+202E⟩b␀␛");
});
