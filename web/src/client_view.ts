// What a client knows after a part of its stream: the bytes that were sent until then, folded into an answer. It reads the four
// dialects that the server speaks, from a stream's events or from a whole document.

import { EventDecoder } from "./api.ts";
import { isObject, list, number, object, parsed, text, type JsonObject } from "./json.ts";

export interface ClientCall { id: string; name: string; input: string }
export interface ClientChoice { reasoning: string; content: string; calls: ClientCall[]; finish: string }
export interface ClientView {
  choices: Map<number, ClientChoice>;
  events: number;
  bytes: number;
  isDone: boolean; // the stream said that it is over
  isMidEvent: boolean; // the cut is inside an event, which clients do not see yet
  error: string;
  repairs: string[];
  guarantee: string;
}

type Dialect = "chat" | "text" | "messages" | "responses";

export function dialectOf(path: string): Dialect {
  if (path.includes("/messages")) return "messages";
  if (path.includes("/responses")) return "responses";
  return path.includes("/completions") && !path.includes("/chat/") ? "text" : "chat";
}

const kMostChoices = 64;
const kMostCalls = 1024;

export class ClientFold {
  readonly view: ClientView = { choices: new Map(), events: 0, bytes: 0, isDone: false, isMidEvent: false, error: "", repairs: [], guarantee: "" };
  readonly dialect: Dialect;
  readonly isStream: boolean;
  #decoder = new EventDecoder();
  #document = "";
  #items = new Map<number, ClientCall>(); // of Messages and Responses: the call of an item or a block

  constructor(path: string, isStream: boolean) {
    this.dialect = dialectOf(path);
    this.isStream = isStream;
  }

  feed(sent: string): void {
    this.view.bytes += sent.length;
    if (!this.isStream) {
      this.#document += sent;
      const whole = parsed(this.#document);
      this.view.isMidEvent = whole === undefined;
      if (isObject(whole)) {
        this.view.isDone = true;
        this.#whole(whole);
      }
      return;
    }
    this.#decoder.feed(sent, (data) => this.#event(data));
    this.view.isMidEvent = this.#decoder.isMidEvent;
  }

  #choice(number: number): ClientChoice {
    let choice = this.view.choices.get(number);
    if (!choice) {
      choice = { reasoning: "", content: "", calls: [], finish: "" };
      if (this.view.choices.size < kMostChoices) this.view.choices.set(number, choice);
    }
    return choice;
  }

  #event(data: string): void {
    ++this.view.events;
    if (data === "[DONE]") {
      this.view.isDone = true;
      return;
    }
    const event = object(parsed(data));
    this.#common(event);
    if (this.dialect === "messages") this.#messages(event);
    else if (this.dialect === "responses") this.#responses(event);
    else this.#chunk(event, "delta");
  }

  #common(event: JsonObject): void {
    if (isObject(event["error"])) this.view.error = text(event["error"]["message"]) || "an error without a message";
    const tenon = object(event["tenon"]);
    if (typeof tenon["guarantee"] === "string") this.view.guarantee = tenon["guarantee"];
    for (const repair of list(tenon["repairs"]).slice(0, 64)) {
      this.view.repairs.push(`${text(object(repair)["code"])}: ${text(object(repair)["message"])}`);
    }
  }

  #chunk(chunk: JsonObject, member: "delta" | "message"): void {
    for (const row of list(chunk["choices"]).filter(isObject)) {
      const choice = this.#choice(number(row["index"]));
      const delta = object(row[member]);
      choice.content += text(delta["content"]) + text(row["text"]);
      choice.reasoning += text(delta["reasoning_content"]) || text(delta["reasoning"]);
      list(delta["tool_calls"]).filter(isObject).forEach((piece, place) => {
        const index = number(piece["index"], place);
        if (index < 0 || index >= kMostCalls) return;
        while (choice.calls.length <= index) choice.calls.push({ id: "", name: "", input: "" });
        const call = choice.calls[index]!;
        const what = object(piece["function"] ?? piece["custom"]);
        call.id ||= text(piece["id"]);
        call.name ||= text(what["name"]);
        call.input += text(what["arguments"]) || text(what["input"]);
      });
      choice.finish = text(row["finish_reason"], choice.finish);
    }
  }

  #messages(event: JsonObject): void {
    const choice = this.#choice(0);
    const index = number(event["index"]);
    switch (event["type"]) {
      case "content_block_start": {
        const block = object(event["content_block"]);
        if (block["type"] === "tool_use") this.#call(choice, index, text(block["id"]), text(block["name"]));
        choice.content += text(block["text"]);
        return;
      }
      case "content_block_delta": {
        const delta = object(event["delta"]);
        choice.content += text(delta["text"]);
        choice.reasoning += text(delta["thinking"]);
        const call = this.#items.get(index);
        if (call) call.input += text(delta["partial_json"]);
        return;
      }
      case "message_delta":
        choice.finish = text(object(event["delta"])["stop_reason"], choice.finish);
        return;
      case "message_stop":
        this.view.isDone = true;
    }
  }

  #responses(event: JsonObject): void {
    const choice = this.#choice(0);
    const index = number(event["output_index"]);
    switch (event["type"]) {
      case "response.output_item.added": {
        const item = object(event["item"]);
        if (text(item["type"]).endsWith("_call")) this.#call(choice, index, text(item["call_id"]), text(item["name"]) || text(item["type"]));
        return;
      }
      case "response.output_text.delta":
        choice.content += text(event["delta"]);
        return;
      case "response.reasoning_text.delta":
        choice.reasoning += text(event["delta"]);
        return;
      case "response.function_call_arguments.delta":
      case "response.custom_tool_call_input.delta": {
        const call = this.#items.get(index);
        if (call) call.input += text(event["delta"]);
        return;
      }
      case "response.completed":
      case "response.incomplete":
      case "response.failed": {
        const response = object(event["response"]);
        this.#common(response);
        choice.finish = text(response["status"]);
        this.view.isDone = true;
      }
    }
  }

  #call(choice: ClientChoice, index: number, id: string, name: string): void {
    const call = { id, name, input: "" };
    if (choice.calls.length >= kMostCalls) return;
    choice.calls.push(call);
    this.#items.set(index, call);
  }

  #whole(document: JsonObject): void {
    this.#common(document);
    if (this.dialect === "messages") {
      const choice = this.#choice(0);
      for (const block of list(document["content"]).filter(isObject)) {
        choice.content += text(block["text"]);
        choice.reasoning += text(block["thinking"]);
        if (block["type"] === "tool_use") choice.calls.push({ id: text(block["id"]), name: text(block["name"]), input: JSON.stringify(block["input"] ?? null) });
      }
      choice.finish = text(document["stop_reason"]);
      return;
    }
    if (this.dialect === "responses") {
      const choice = this.#choice(0);
      for (const item of list(document["output"]).filter(isObject)) {
        const words = list(item["content"]).map((part) => text(object(part)["text"])).join("");
        if (item["type"] === "message") choice.content += words;
        else if (item["type"] === "reasoning") choice.reasoning += words;
        else choice.calls.push({ id: text(item["call_id"]), name: text(item["name"]) || text(item["type"]), input: text(item["arguments"]) || text(item["input"]) });
      }
      choice.finish = text(document["status"]);
      return;
    }
    this.#chunk(document, "message");
  }
}
