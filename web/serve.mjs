#!/usr/bin/env node
// web/serve.mjs [FOLDER [PORT]]: the pages of web/dist over a folder of recordings, with the routes and the Content-Security-Policy of
// the server, to develop and test with. A FOLDER that is not there is filled by sample.mjs.
import { createReadStream, existsSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { join, normalize } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { writeSamples } from "./sample.mjs";

export const kPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const kDist = fileURLToPath(new URL("dist/", import.meta.url));
const kPages = new Map([
  ["/", "home.html"], ["/home.js", "home.js"], ["/home.css", "home.css"],
  ["/inspector", "index.html"], ["/inspector/app.js", "app.js"], ["/inspector/app.css", "app.css"],
]);
const kTypes = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8" };

const json = (response, status, body) => {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
};

// What the first page asks, played: two models, one of them from an upstream, and answers that call the first tool and tell its result.
const kMetrics = `# HELP tenon_upstream_up 1: requests go to this server
tenon_upstream_up{model="other-model",url="http://127.0.0.1:9000/v1"} 1
tenon_upstream_up{model="other-model",url="http://127.0.0.1:9001/v1"} 0
tenon_upstream_requests_total{model="other-model",url="http://127.0.0.1:9000/v1",outcome="answered"} 41
tenon_upstream_requests_total{model="other-model",url="http://127.0.0.1:9001/v1",outcome="failed"} 3
tenon_answers_total{model="tenon-tiny",finish_reason="stop"} 1200
tenon_answers_total{model="tenon-tiny",finish_reason="tool_calls"} 34
tenon_generated_tokens_total{model="tenon-tiny"} 56789
tenon_time_to_first_event_seconds_bucket{model="tenon-tiny",le="0.1"} 7
`;
const kModels = {
  data: [
    { id: "tenon-tiny", aliases: ["tiny"], loaded: true, context_length: 32768, tool_call_format: "hermes", engine: "llama" },
    { id: "other-model", aliases: [], loaded: false },
  ],
};

async function answer(request, response) {
  let body = "";
  for await (const piece of request) body += piece;
  const { messages, tools } = JSON.parse(body);
  const last = messages.at(-1);
  response.writeHead(200, { "content-type": "text/event-stream" });
  const send = (delta, finish = null) => response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`);
  const name = tools?.[0]?.function.name;
  if (last.role === "user" && name) {
    send({ reasoning_content: "A tool knows." });
    send({ tool_calls: [{ index: 0, id: "call_p", type: "function", function: { name, arguments: "" } }] });
    for (const piece of ['{"location"', ': "Paris"}']) send({ tool_calls: [{ index: 0, function: { arguments: piece } }] });
    send({}, "tool_calls");
  } else {
    for (const word of ["It said: ", last.content]) send({ content: word });
    send({}, "stop");
  }
  response.write(`data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 21, completion_tokens: 7 }, tenon: { guarantee: "masked", repairs: [] } })}\n\n`);
  response.end("data: [DONE]\n\n");
}

const kPlayed = new Map([
  ["/v1/models", (_, response) => json(response, 200, kModels)],
  ["/version", (_, response) => json(response, 200, { name: "tenon", version: "1.0.0" })],
  ["/health", (_, response) => json(response, 200, { status: "ok", sandbox: "namespaces" })],
  ["/metrics", (_, response) => response.end(kMetrics)],
  ["/v1/chat/completions", answer],
]);

/// `more`: further handlers by path. `apiKey`: what all but the pages must come with.
export function serve({ folder, port = 0, apiKey = "", more = new Map() }) {
  const server = createServer((request, response) => {
    const url = new URL(request.url, "http://localhost");
    const page = kPages.get(url.pathname);
    if (page) {
      response.writeHead(200, { "content-type": kTypes[page.split(".")[1]], "content-security-policy": kPolicy, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cache-control": "no-store" });
      return response.end(readFileSync(join(kDist, page)));
    }
    if (apiKey !== "" && request.headers.authorization !== `Bearer ${apiKey}`) return json(response, 401, { error: { message: "a key is needed" } });
    const own = more.get(url.pathname) ?? kPlayed.get(url.pathname);
    if (own) return own(request, response);
    if (url.pathname === "/inspector/api/recordings") {
      const all = JSON.parse(readFileSync(join(folder, "list.json"), "utf8"));
      const before = url.searchParams.get("before");
      const limit = Number(url.searchParams.get("limit") ?? 200);
      const rest = before ? all.filter((entry) => entry.name < before) : all;
      return json(response, 200, { recordings: rest.slice(0, limit), more: rest.length > limit });
    }
    const prefix = "/inspector/api/recordings/";
    if (url.pathname.startsWith(prefix)) {
      const name = normalize(decodeURIComponent(url.pathname.slice(prefix.length)));
      const path = join(folder, name);
      if (name.startsWith("..") || !existsSync(path) || !statSync(path).isFile()) return json(response, 404, { error: { message: `there is no recording ${name}` } });
      response.writeHead(200, { "content-type": "text/plain; charset=utf-8" });
      return createReadStream(path, { start: Number(url.searchParams.get("from") ?? 0) }).pipe(response);
    }
    json(response, 404, { error: { message: `there is nothing at ${url.pathname}` } });
  });
  return new Promise((resolve) => server.listen(port, "127.0.0.1", () => resolve({ server, url: `http://127.0.0.1:${server.address().port}` })));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const folder = process.argv[2] ?? "/tmp/tenon-recordings";
  if (!existsSync(join(folder, "list.json"))) await writeSamples(folder);
  const { url } = await serve({ folder, port: Number(process.argv[3] ?? 8090) });
  console.log(`${url}/inspector`);
}
