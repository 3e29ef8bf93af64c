// A recording as docs/recording.md describes it, read line by line. Whatever is in the file, reading it ends: what is not
// understood is left out, and the memory is bounded by `kMostBytes`.

import { encode, fromHex, joined, utf8Size } from "./bytes.ts";
import { isObject, list, maybeNumber, number, object, parsed, text, type Json, type JsonObject } from "./json.ts";

/// The server cuts a file at 64 MiB; a file that is larger was not written by it.
export const kMostBytes = 65 << 20;

export type Origin = "template" | "data";
export interface Span { begin: number; end: number; origin: Origin }

/// What the parser made of a token: `held` until an event tells, `marker` if its text is in no event.
export type State = "held" | "marker" | "content" | "reasoning" | "arguments";

export interface Candidate { text: string; logprob: number; legal: boolean }

export interface Token {
  kind: "token";
  at: number;
  step: number;
  run: Run;
  index: number; // in its run
  id: number;
  text: string; // "" if contents were not recorded; U+FFFD for bytes that are not whole characters
  raw?: Uint8Array; // those bytes
  begin: number; // in the run's output, in bytes
  end: number;
  control: boolean;
  count: number;
  legal?: number;
  logprob?: number;
  top?: Candidate[];
  state: State;
}

export interface Piece { kind: "piece"; at: number; step: number; run: Run; what: string; text: string; index: number; name: string }

export interface ParserEvent {
  kind: "event";
  at: number;
  step: number;
  choice: number;
  name: string;
  text: string;
  index: number;
  callId: string;
  call: string; // the call's name
  incomplete: boolean;
  code: string;
  message: string;
  token?: Token; // the last one before it
  byte: number; // of the run's output at that moment
  tool?: ToolRun; // of the event `tool_run`: a line `tool` of the file
}

/// What came of a call that the server runs itself.
export interface ToolRun { hasRun: boolean; us: number; bytes: number; isError: boolean; args: string; output: string; runsBefore: number }

/// One of several servers was asked to make a run; `error` is "" if it answered.
export interface Attempt { server: string; ms: number; error: string }

export interface Finish { kind: "finish"; at: number; step: number; choice: number; reason: string; usage: JsonObject; guarantee: string; format: string; error: string }
export interface Sent { kind: "sent"; at: number; step: number; text: string }
export interface Note { kind: "run" | "run_end" | "cut" | "end"; at: number; step: number; text: string; run?: Run }
export type Step = Token | Piece | ParserEvent | Finish | Sent | Note;

export interface Run {
  number: number;
  at: number;
  step: number;
  choice: number;
  part: string; // of a recursive model's answer; "": the answer itself
  madeBy: JsonObject;
  prompt: Uint8Array;
  hasPrompt: boolean;
  spans: Span[];
  ids: number[];
  promptTokens: number; // also where the ids were not recorded
  lengths?: number[]; // of each prompt token, in bytes of the prompt
  changes: string[];
  opening: string;
  tokens: Token[];
  pieces: Piece[];
  events: ParserEvent[];
  finish?: Finish; // of its choice
  usage?: JsonObject; // of this run, once it has ended
  attempts: Attempt[];
  error: string;
  outputBytes: number;
  last: number; // when its last token or piece came
}

export interface Head { version: number; tenon: string; id: string; began: number; model: string; path: string; stream: boolean; request: JsonObject; replayOf?: { id: string; tokens: number } }

export class Recording {
  head: Head | undefined;
  runs: Run[] = [];
  steps: Step[] = [];
  events: ParserEvent[] = [];
  finishes: Finish[] = [];
  status: number | undefined; // once there is the line `end`
  cut = "";
  last = 0; // the latest time in it
  bytes = 0; // that were fed
  isTooLarge = false;
  brokenLines = 0;
  ownTools: Json[] = []; // that the server runs itself, as the line `tools` has them
  #makers: JsonObject[] = [];
  #held = new Map<number, Token[]>(); // of each choice
  #runOf = new Map<number, Run>(); // the last one of each choice
  #decoder = new TextDecoder();
  #carry: string[] = [];

  get isWhole(): boolean {
    return this.status !== undefined;
  }
  /// The request, with the tools that the server runs itself as its member `server_tools`.
  get request(): JsonObject {
    const request = this.head?.request ?? {};
    return this.ownTools.length > 0 ? { ...request, server_tools: this.ownTools } : request;
  }
  /// Whether the last line is not (yet) whole.
  get isMidLine(): boolean {
    return this.#carry.some((piece) => piece.length > 0);
  }
  get hasContents(): boolean {
    return this.head !== undefined && Object.keys(this.head.request).length > 0;
  }

  feed(chunk: Uint8Array): void {
    const room = kMostBytes - this.bytes;
    if (chunk.length > room) this.isTooLarge = true;
    this.bytes += chunk.length;
    if (room <= 0) return;
    let source = this.#decoder.decode(chunk.subarray(0, room), { stream: true });
    let from = 0;
    for (;;) {
      const to = source.indexOf("\n", from);
      if (to < 0) break;
      this.#carry.push(source.slice(from, to));
      this.#line(this.#carry.length === 1 ? this.#carry[0]! : this.#carry.join(""));
      this.#carry = [];
      from = to + 1;
    }
    if (from > 0) source = source.slice(from);
    if (source !== "") this.#carry.push(source);
  }

  #line(source: string): void {
    if (source.trim() === "") return;
    const line = parsed(source);
    if (!isObject(line)) {
      ++this.brokenLines;
      return;
    }
    let kind = "";
    for (const name in line) {
      kind = name;
      break;
    }
    if (this.head === undefined && kind !== "recording") {
      ++this.brokenLines;
      return;
    }
    const at = Math.max(0, number(line["at"], this.last));
    if (at > this.last) this.last = at;
    this.#read(kind, line, at);
  }

  #read(kind: string, line: JsonObject, at: number): void {
    const step = this.steps.length;
    switch (kind) {
      case "recording":
        this.head ??= {
          version: number(line["recording"]),
          tenon: text(line["tenon"]),
          id: text(line["id"]),
          began: number(line["began"]),
          model: text(line["model"]),
          path: text(line["path"]),
          stream: line["stream"] === true,
          request: object(line["request"]),
          ...(isObject(line["replay_of"]) ? { replayOf: { id: text(line["replay_of"]["id"]), tokens: number(line["replay_of"]["tokens"]) } } : {}),
        };
        return;
      case "made_by":
        this.#makers.push(object(line["made_by"]));
        return;
      case "run":
        return this.#run(line, at, step);
      case "token":
        return this.#token(line, at, step);
      case "piece":
        return this.#piece(line, at, step);
      case "run_end": {
        const run = this.#numbered(line["run"]);
        if (!run) return;
        run.usage = line;
        run.error = text(line["error"]);
        run.attempts = list(line["attempts"]).filter(isObject).map((one) => ({ server: text(one["server"]), ms: number(one["ms"]), error: text(one["error"]) }));
        run.promptTokens ||= number(line["prompt_tokens"]);
        run.last = Math.max(run.last, at);
        this.steps.push({ kind, at, step, text: text(line["run_end"]), run });
        return;
      }
      case "event":
        return this.#event(line, at, step);
      case "tool":
        return this.#tool(line, at, step);
      case "tools":
        this.ownTools = list(line["tools"]);
        return;
      case "finish": {
        const finish: Finish = {
          kind, at, step,
          choice: number(line["choice"]),
          reason: text(line["finish"]),
          usage: object(line["usage"]),
          guarantee: text(line["guarantee"]),
          format: text(line["format"]),
          error: typeof line["error"] === "string" ? line["error"] : isObject(line["error"]) ? text(line["error"]["message"]) : "",
        };
        for (const token of this.#held.get(finish.choice) ?? []) token.state = "marker";
        this.#held.delete(finish.choice);
        const run = this.#runOf.get(finish.choice);
        if (run) run.finish = finish;
        this.finishes.push(finish);
        this.steps.push(finish);
        return;
      }
      case "sent":
        this.steps.push({ kind, at, step, text: text(line["sent"]) });
        return;
      case "cut":
        this.cut = text(line["cut"], "The file was full.");
        this.steps.push({ kind, at, step, text: this.cut });
        return;
      case "end":
        this.status = number(line["end"]);
        this.steps.push({ kind, at, step, text: String(this.status) });
    }
  }

  #run(line: JsonObject, at: number, step: number): void {
    const source = line["text"];
    const prompt = encode(text(source));
    const run: Run = {
      number: number(line["run"], this.runs.length),
      at, step,
      choice: number(line["choice"]),
      part: text(line["part"]),
      madeBy: this.#makers[number(line["made_by"])] ?? {},
      prompt,
      hasPrompt: typeof source === "string",
      spans: spansOf(line["spans"], prompt.length),
      ids: list(line["ids"]).map((id) => number(id, -1)),
      changes: list(line["changes"]).map((change) => (typeof change === "string" ? change : JSON.stringify(change))),
      opening: text(line["opening"]),
      promptTokens: list(line["ids"]).length || number(line["tokens"]),
      error: "",
      tokens: [], pieces: [], events: [], attempts: [],
      outputBytes: 0,
      last: at,
    };
    const lengths = list(line["lengths"]).map((length) => Math.max(0, number(length)));
    if (lengths.length > 0 && lengths.length === run.ids.length) run.lengths = lengths;
    this.runs.push(run);
    if (run.part === "") this.#runOf.set(run.choice, run);
    this.steps.push({ kind: "run", at, step, text: `run ${run.number}`, run });
  }

  #numbered(value: Json | undefined): Run | undefined {
    const wanted = number(value);
    const run = this.runs[wanted];
    return run?.number === wanted ? run : this.runs.findLast((other) => other.number === wanted);
  }

  #token(line: JsonObject, at: number, step: number): void {
    const run = this.#numbered(line["run"]);
    if (!run) return;
    const raw = typeof line["hex"] === "string" ? fromHex(line["hex"]) : undefined;
    const source = raw ? new TextDecoder().decode(raw) : text(line["text"]);
    const size = raw ? raw.length : utf8Size(source);
    const token: Token = {
      kind: "token", at, step, run,
      index: run.tokens.length,
      id: number(line["token"], -1),
      text: source,
      begin: run.outputBytes,
      end: run.outputBytes + size,
      control: line["control"] === true,
      count: number(line["count"], 1),
      state: run.part === "" ? "held" : "content", // no events tell what the texts of parts are
    };
    if (raw) token.raw = raw;
    const legal = maybeNumber(line["legal"]);
    if (legal !== undefined) token.legal = legal;
    const logprob = maybeNumber(line["logprob"]);
    if (logprob !== undefined) token.logprob = logprob;
    if (Array.isArray(line["top"])) {
      token.top = list(line["top"]).slice(0, 64).map((row) => {
        const cells = list(row);
        return { text: text(cells[0]), logprob: number(cells[1], Number.NEGATIVE_INFINITY), legal: cells[2] !== false };
      });
    }
    run.outputBytes += size;
    run.last = at;
    run.tokens.push(token);
    this.steps.push(token);
    if (run.part !== "") return;
    const held = this.#held.get(run.choice);
    if (held) held.push(token);
    else this.#held.set(run.choice, [token]);
  }

  #piece(line: JsonObject, at: number, step: number): void {
    const run = this.#numbered(line["run"]);
    if (!run) return;
    const piece: Piece = {
      kind: "piece", at, step, run,
      what: text(line["piece"]),
      text: text(line["text"]) || text(line["arguments"]),
      index: number(line["index"]),
      name: text(line["name"]),
    };
    run.last = at;
    run.pieces.push(piece);
    this.steps.push(piece);
  }

  #tool(line: JsonObject, at: number, step: number): void {
    const choice = number(line["choice"]);
    const run = this.#runOf.get(choice);
    const tool: ToolRun = {
      hasRun: line["bytes"] !== undefined,
      us: 1000 * number(line["ms"]),
      bytes: number(line["bytes"]),
      isError: line["is_error"] === true,
      args: text(line["arguments"]),
      output: text(line["output"]),
      runsBefore: this.runs.length,
    };
    const came = tool.isError ? "failed" : line["is_remembered"] === true ? "remembered" : "ran";
    const event: ParserEvent = {
      kind: "event", at, step, choice,
      name: "tool_run",
      text: [tool.args, tool.output].filter((part) => part !== "").join(" → "),
      index: 0,
      callId: "",
      call: text(line["tool"]),
      incomplete: false,
      code: tool.hasRun ? came : text(line["decision"]),
      message: "",
      byte: run?.outputBytes ?? 0,
      tool,
    };
    const last = run?.tokens.at(-1);
    if (last) event.token = last;
    run?.events.push(event);
    this.events.push(event);
    this.steps.push(event);
  }

  #event(line: JsonObject, at: number, step: number): void {
    const choice = number(line["choice"]);
    const run = this.#runOf.get(choice);
    const held = this.#held.get(choice) ?? [];
    const event: ParserEvent = {
      kind: "event", at, step, choice,
      name: text(line["event"]),
      text: text(line["text"]),
      index: number(line["index"]),
      callId: text(line["call_id"]),
      call: text(line["name"]),
      incomplete: line["incomplete"] === true,
      code: text(line["code"]),
      message: [text(line["path"]), text(line["message"])].filter((part) => part !== "").join(": "),
      byte: run?.outputBytes ?? 0,
    };
    const last = run?.tokens.at(-1);
    if (last) event.token = last;
    const state = kStates.get(event.name);
    if (state) {
      for (const token of held) {
        // A token that an event of the same moment already claimed keeps the first.
        token.state = token.raw || (token.text !== "" && (event.text.includes(token.text) || token.text.includes(event.text))) ? state : "marker";
      }
      this.#held.delete(choice);
    } else if (event.name !== "diagnostic") {
      // The token that began or ended a call may have its first arguments too, so the last one stays open.
      for (const token of held.slice(0, -1)) token.state = "marker";
      this.#held.set(choice, held.slice(-1));
    }
    run?.events.push(event);
    this.events.push(event);
    this.steps.push(event);
  }
}

const kStates = new Map<string, State>([["content", "content"], ["reasoning", "reasoning"], ["call_arguments", "arguments"]]);

/// Whether a diagnostic says that something was put right, or went wrong: the others tell of tools that were run.
export const isRepair = (event: ParserEvent): boolean => event.name === "diagnostic" && event.code !== "ran_tool" && event.code !== "remembered_tool";

/// Spans that do not fit the text are left out, and gaps are the template's.
function spansOf(value: Json | undefined, size: number): Span[] {
  const spans: Span[] = [];
  let at = 0;
  for (const row of list(value)) {
    const [begin, end, origin] = list(row);
    const from = Math.max(at, number(begin, -1));
    const to = Math.min(size, number(end, -1));
    if (to <= from) continue;
    if (from > at) spans.push({ begin: at, end: from, origin: "template" });
    spans.push({ begin: from, end: to, origin: origin === "data" ? "data" : "template" });
    at = to;
  }
  if (at < size) spans.push({ begin: at, end: size, origin: "template" });
  return spans;
}

/// The bytes that a run's tokens make.
export function outputOf(run: Run): Uint8Array {
  const pieces: Uint8Array[] = [];
  let waiting = "";
  for (const token of run.tokens) {
    if (!token.raw) {
      waiting += token.text;
      continue;
    }
    if (waiting !== "") pieces.push(encode(waiting));
    waiting = "";
    pieces.push(token.raw);
  }
  if (waiting !== "") pieces.push(encode(waiting));
  return joined(pieces);
}

/// The counts of a line `finish` or `run_end`.
export const usageOf = (usage: JsonObject = {}) => {
  const details = object(usage["prompt_tokens_details"]);
  return {
    prompt: maybeNumber(usage["prompt_tokens"]),
    completion: maybeNumber(usage["completion_tokens"]),
    cached: maybeNumber(usage["cached_tokens"]) ?? maybeNumber(details["cached_tokens"]),
    reasoning: maybeNumber(usage["reasoning_tokens"]),
  };
};
