// Where in its arguments a call stands that is still being written: the path as far as it goes, and the schema that holds there.

import { isObject, list, object, text, type Json, type JsonObject } from "./json.ts";

export interface Place { path: string[]; within: string }

/// The place behind the last byte of `written`, the beginning of a JSON text.
export function placeIn(written: string): Place {
  interface Open { isObject: boolean; name: string; index: number; wants: "name" | "colon" | "value" | "comma" }
  const open: Open[] = [];
  let at = 0;
  const ended = () => {
    const top = open.at(-1);
    if (top) top.wants = "comma";
  };
  const path = () => open.map((level) => (level.isObject ? level.name : String(level.index))).filter((name) => name !== "");
  while (at < written.length) {
    const c = written[at]!;
    const top = open.at(-1);
    if (c === '"') {
      let to = at + 1;
      while (to < written.length && written[to] !== '"') to += written[to] === "\\" ? 2 : 1;
      if (to >= written.length) return { path: path(), within: top?.wants === "name" ? "a name" : "a string" };
      if (top?.isObject && top.wants === "name") {
        const name: unknown = JSON.parse(safe(written.slice(at, to + 1)));
        top.name = text(name);
        top.wants = "colon";
      } else {
        ended();
      }
      at = to + 1;
      continue;
    }
    if (c === "{" || c === "[") {
      if (open.length > 512) break;
      open.push({ isObject: c === "{", name: "", index: 0, wants: c === "{" ? "name" : "value" });
    } else if (c === "}" || c === "]") {
      open.pop();
      ended();
    } else if (c === ":") {
      if (top) top.wants = "value";
    } else if (c === ",") {
      if (top) {
        top.wants = top.isObject ? "name" : "value";
        if (top.isObject) top.name = "";
        else ++top.index;
      }
    } else if (!/\s/.test(c)) {
      let to = at;
      while (to < written.length && /[-+.\w]/.test(written[to]!)) ++to;
      if (to >= written.length) return { path: path(), within: "a number or word" };
      if (to > at) {
        ended();
        at = to;
        continue;
      }
    }
    ++at;
  }
  const top = open.at(-1);
  if (!top) return { path: [], within: written.trim() === "" ? "before the arguments" : "behind the arguments" };
  const words = { name: "before a name", colon: "before a colon", value: "before a value", comma: "behind a value" };
  return { path: path(), within: words[top.wants] };
}

function safe(quoted: string): string {
  try {
    JSON.parse(quoted);
    return quoted;
  } catch {
    return '"?"';
  }
}

/// The schema of the tool's parameters, if the request has the tool.
export function parametersOf(request: JsonObject, tool: string): JsonObject | undefined {
  for (const row of [...list(request["tools"]), ...list(request["functions"]), ...list(request["server_tools"])].filter(isObject)) {
    const inner = isObject(row["function"]) ? row["function"] : row;
    if (text(inner["name"]) === tool) return object(inner["parameters"] ?? inner["input_schema"]);
  }
  return undefined;
}

/// The schema below `path`, with its path in the schema, as far as plain properties and items lead.
export function schemaAt(root: JsonObject, path: readonly string[]): { schemaPath: string; schema: Json } {
  let schema: JsonObject = root;
  let schemaPath = "#";
  for (const name of path) {
    for (let hops = 0; typeof schema["$ref"] === "string" && hops < 16; ++hops) {
      const target = schema["$ref"].split("/").slice(1).reduce<Json>((value, step) => object(value)[step] ?? null, root);
      if (!isObject(target)) break;
      schemaPath = schema["$ref"];
      schema = target;
    }
    const property = object(schema["properties"])[name];
    const next = /^\d+$/.test(name) && isObject(schema["items"]) ? schema["items"] : property;
    if (!isObject(next)) {
      if (isObject(schema["additionalProperties"])) {
        schema = schema["additionalProperties"];
        schemaPath += "/additionalProperties";
        continue;
      }
      break;
    }
    schemaPath += next === property ? `/properties/${name}` : "/items";
    schema = next;
  }
  return { schemaPath, schema };
}
