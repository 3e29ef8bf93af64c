// The page at "/": the models and upstreams, a playground, and where to go on.

import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import "./home.css";
import { ask, key, RequestError, setKey } from "./api.ts";
import { assistantMessage, chat, modelsOf, samplesOf, toolsOf, type ModelRow, type Reply, type Sample } from "./chat.ts";
import type { ClientChoice } from "./client_view.ts";
import { maybeNumber, object, text, type JsonObject } from "./json.ts";
import { brief, count, CopyButton, duration, KeyForm, Text } from "./parts.tsx";

const kTools = `[
  {
    "name": "get_weather",
    "description": "The weather in a city",
    "parameters": {
      "type": "object",
      "properties": {
        "location": { "type": "string" },
        "unit": { "enum": ["celsius", "fahrenheit"] }
      },
      "required": ["location"]
    }
  }
]`;

interface Status { models: ModelRow[]; samples: Sample[]; health: string; sandbox: string; version: string }

function useStatus(session: number, wantKey: (message: string) => void) {
  const [status, setStatus] = useState<Status>();
  const [problem, setProblem] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    const signal = stop.signal;
    let timer: ReturnType<typeof setTimeout>;
    const look = async () => {
      if (!document.hidden) {
        try {
          const get = (path: string) => ask(path, { signal });
          const health = await fetch("/health", { signal }).then((response) => response.json(), () => undefined);
          const [models, version, metrics] = await Promise.all([
            get("/v1/models").then((response) => response.json()),
            get("/version").then((response) => response.json()),
            // A server may be told not to show its figures; the rest of the page does not need them.
            get("/metrics").then((response) => response.text(), () => ""),
          ]);
          setStatus({ models: modelsOf(models), samples: samplesOf(metrics), health: text(object(health)["status"], "does not answer"), sandbox: text(object(health)["sandbox"]), version: text(object(version)["version"]) });
          setProblem("");
        } catch (error) {
          if (signal.aborted) return;
          if (error instanceof RequestError && error.wantsKey) return wantKey(key() === "" ? "This server asks for an API key." : `The server refuses this key: ${error.message}`);
          setProblem(error instanceof Error ? error.message : String(error));
        }
      }
      timer = setTimeout(look, 5000);
    };
    void look();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [session]);
  return { status, problem };
}

function Home() {
  const [session, setSession] = useState(0);
  const [wantsKey, setWantsKey] = useState("");
  const { status, problem } = useStatus(session, setWantsKey);
  if (wantsKey !== "") {
    return <main class="alone"><h1>Tenon</h1><KeyForm message={wantsKey} take={(value) => { setKey(value); setWantsKey(""); setSession((old) => old + 1); }} /></main>;
  }
  const base = `${location.origin}/v1`;
  return (
    <main class="home">
      <header>
        <h1>Tenon <span class="dim">{brief(status?.version ?? "", 40)}</span></h1>
        <p>A server for models that call functions. Clients of OpenAI use <code>{base}</code>, those of Anthropic <code>{location.origin}</code>. <CopyButton label="Copy the base URL" make={() => base} /></p>
        <nav aria-label="Links"><a href="/inspector">Inspector</a> <a href="/openapi.json">openapi.json</a> <a href="/v1/models">models</a> <a href="/health">health</a> <a href="/metrics">metrics</a> <a href="/version">version</a></nav>
      </header>
      {problem !== "" && <p class="bad" role="alert">{brief(problem, 400)}</p>}
      {!status && problem === "" && <p role="status">Asking the server…</p>}
      {status && <StatusView status={status} />}
      <Playground models={status?.models ?? []} />
      <Examples base={base} model={status?.models[0]?.id ?? "NAME"} />
    </main>
  );
}

const sum = (samples: readonly Sample[], name: string, model: string): number =>
  samples.reduce((all, sample) => (sample.name === name && sample.labels.get("model") === model ? all + sample.value : all), 0);

function StatusView({ status }: { status: Status }) {
  const upstreams = status.samples.filter((sample) => sample.name === "tenon_upstream_up");
  const has = status.samples.length > 0;
  const requests = (sample: Sample, outcome: string) =>
    status.samples.find((other) => other.name === "tenon_upstream_requests_total" && other.labels.get("outcome") === outcome && other.labels.get("url") === sample.labels.get("url") && other.labels.get("model") === sample.labels.get("model"))?.value ?? 0;
  return (
    <section aria-labelledby="status">
      <h2 id="status">Status</h2>
      <p>Health: <strong class={status.health === "ok" ? "good" : "bad"}>{brief(status.health, 40)}</strong>{status.sandbox !== "" && <>, sandbox: {brief(status.sandbox, 40)}</>}</p>
      <table>
        <caption>Models</caption>
        <thead><tr><th scope="col">name</th><th scope="col">state</th><th scope="col">calls</th><th scope="col">context</th><th scope="col">engine</th>{has && <><th scope="col">answers</th><th scope="col">tool calls</th><th scope="col">tokens</th></>}</tr></thead>
        <tbody>
          {status.models.map((model) => (
            <tr key={model.id}>
              <td><code>{brief(model.id, 80)}</code>{model.aliases.length > 0 && <span class="dim"> also {brief(model.aliases.join(", "), 80)}</span>}</td>
              <td>{model.loaded ? <span class="good">loaded</span> : <span class="dim">on first use</span>}</td>
              <td>{model.format !== "" ? brief(model.format, 40) : model.loaded ? "none" : ""}</td>
              <td class="num">{model.context === undefined ? "" : count(model.context)}</td>
              <td>{brief(model.engine, 40)}</td>
              {has && <><td class="num">{count(sum(status.samples, "tenon_answers_total", model.id))}</td><td class="num">{count(sum(status.samples, "tenon_tool_calls_total", model.id))}</td><td class="num">{count(sum(status.samples, "tenon_generated_tokens_total", model.id))}</td></>}
            </tr>
          ))}
        </tbody>
      </table>
      {status.models.length === 0 && <p class="dim">This server has no models.</p>}
      {upstreams.length > 0 && (
        <table>
          <caption>Upstreams</caption>
          <thead><tr><th scope="col">model</th><th scope="col">address</th><th scope="col">state</th><th scope="col">answered</th><th scope="col">failed</th></tr></thead>
          <tbody>
            {upstreams.map((sample, at) => (
              <tr key={at}>
                <td><code>{brief(sample.labels.get("model") ?? "", 80)}</code></td>
                <td>{brief(sample.labels.get("url") ?? "", 120)}</td>
                <td>{sample.value === 1 ? <span class="good">up</span> : <span class="bad">down, or never asked</span>}</td>
                <td class="num">{count(requests(sample, "answered"))}</td>
                <td class="num">{count(requests(sample, "failed"))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

interface Turn { message: JsonObject; reply?: Reply }

function Playground({ models }: { models: readonly ModelRow[] }) {
  const [model, setModel] = useState("");
  const [system, setSystem] = useState("");
  const [words, setWords] = useState("What is the weather in Paris?");
  const [tools, setTools] = useState(kTools);
  const [toolChoice, setToolChoice] = useState("auto");
  const [turns, setTurns] = useState<Turn[]>([]);
  const [current, setCurrent] = useState<Reply>();
  const [results, setResults] = useState<Record<number, string>>({});
  const [problem, setProblem] = useState("");
  const stop = useRef<AbortController | null>(null);
  const chosen = model || models[0]?.id || "";
  const made = toolsOf(tools);
  const waiting = object(turns.at(-1)?.message)["tool_calls"];
  const calls = Array.isArray(waiting) ? waiting : [];

  const send = async (more: Turn[]) => {
    const all = [...turns, ...more];
    setTurns(all);
    setProblem("");
    setResults({});
    const control = new AbortController();
    stop.current = control;
    const messages = all.map((turn) => turn.message);
    if (system.trim() !== "") messages.unshift({ role: "system", content: system });
    let last: Reply | undefined;
    try {
      last = await chat({ model: chosen, messages, tools: made.tools, toolChoice }, control.signal, (reply) => { last = reply; setCurrent(reply); });
      if (last.view.error !== "") setProblem(last.view.error);
    } catch (error) {
      if (!control.signal.aborted) setProblem(error instanceof Error ? error.message : String(error));
    }
    setCurrent(undefined);
    stop.current = null;
    const choice = last?.view.choices.get(0);
    if (last && choice && (choice.content !== "" || choice.calls.length > 0 || choice.reasoning !== "")) setTurns([...all, { message: assistantMessage(last.view), reply: last }]);
  };
  const isBusy = current !== undefined || stop.current !== null;
  const sendWords = () => {
    if (isBusy || made.mistake !== "" || words.trim() === "") return;
    void send([{ message: { role: "user", content: words } }]);
    setWords("");
  };
  const sendResults = () => void send(calls.map((call, at) => ({ message: { role: "tool", tool_call_id: text(object(call)["id"]), content: results[at] ?? "" } })));
  return (
    <section aria-labelledby="try">
      <h2 id="try">Try it</h2>
      <div class="play">
        <div class="settings">
          <label>Model <select value={chosen} onChange={(event) => setModel(event.currentTarget.value)}>{models.map((row) => <option key={row.id} value={row.id}>{brief(row.id, 80)}</option>)}</select></label>
          <label>System message <textarea rows={2} value={system} onInput={(event) => setSystem(event.currentTarget.value)} /></label>
          <label>Tools, as JSON <textarea class="mono" rows={14} spellcheck={false} value={tools} aria-invalid={made.mistake !== ""} aria-describedby="mistake" onInput={(event) => setTools(event.currentTarget.value)} /></label>
          <p id="mistake" class="bad" role="status">{brief(made.mistake, 200)}</p>
          <label>Tool choice <select value={toolChoice} onChange={(event) => setToolChoice(event.currentTarget.value)}>{["auto", "required", "none"].map((one) => <option key={one}>{one}</option>)}</select></label>
        </div>
        <div class="talk">
          <ol class="turns" aria-label="The conversation" aria-live="polite">
            {turns.map((turn, at) => <TurnView key={at} turn={turn} />)}
            {current && <li class="assistant"><ReplyView choice={current.view.choices.get(0)} reply={current} /></li>}
          </ol>
          {problem !== "" && <p class="bad" role="alert">{brief(problem, 1000)}</p>}
          {!isBusy && calls.length > 0 && (
            <form class="results" onSubmit={(event) => { event.preventDefault(); sendResults(); }}>
              {calls.map((call, at) => (
                <label key={at}>Result of <code>{brief(text(object(object(call)["function"])["name"]), 100)}</code>
                  <textarea class="mono" rows={2} value={results[at] ?? ""} onInput={(event) => setResults({ ...results, [at]: event.currentTarget.value })} />
                </label>
              ))}
              <button type="submit">Send the results</button>
            </form>
          )}
          <form onSubmit={(event) => { event.preventDefault(); sendWords(); }}>
            <label>Message <textarea rows={3} value={words} onInput={(event) => setWords(event.currentTarget.value)} onKeyDown={(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); sendWords(); } }} /></label>
            <div class="buttons">
              <button type="submit" disabled={isBusy || made.mistake !== ""}>Send</button>
              <button type="button" disabled={!isBusy} onClick={() => stop.current?.abort()}>Stop</button>
              <button type="button" disabled={isBusy || turns.length === 0} onClick={() => { setTurns([]); setProblem(""); }}>New chat</button>
              <span class="dim">Ctrl and Enter send.</span>
            </div>
          </form>
        </div>
      </div>
    </section>
  );
}

function TurnView({ turn }: { turn: Turn }) {
  const role = text(turn.message["role"]);
  return (
    <li class={role}>
      {turn.reply ? <ReplyView choice={turn.reply.view.choices.get(0)} reply={turn.reply} /> : <><h3>{role === "tool" ? "Result" : "You"}</h3><Text source={text(turn.message["content"])} label={role} /></>}
    </li>
  );
}

function ReplyView({ choice, reply }: { choice: ClientChoice | undefined; reply: Reply }) {
  const prompt = maybeNumber(reply.usage["prompt_tokens"]);
  const completion = maybeNumber(reply.usage["completion_tokens"]);
  return (
    <>
      <h3>Model</h3>
      {choice && choice.reasoning !== "" && <details open={choice.content === "" && choice.calls.length === 0}><summary>Reasoning</summary><Text source={choice.reasoning} label="Reasoning" /></details>}
      {choice && choice.content !== "" && <Text source={choice.content} label="Content" />}
      {choice?.calls.map((call, at) => <div key={at} class="call"><h4>Calls <code>{brief(call.name, 100)}</code></h4><Text source={call.input} label="Arguments" /></div>)}
      <p class="dim">
        {choice?.finish ? `${brief(choice.finish, 20)}, ` : ""}{duration(reply.us)}
        {prompt !== undefined && `, ${count(prompt)} tokens in`}{completion !== undefined && `, ${count(completion)} out`}
        {reply.view.guarantee !== "" && `, ${brief(reply.view.guarantee, 20)}`}
      </p>
      {reply.view.repairs.length > 0 && <ul class="bad">{reply.view.repairs.slice(0, 20).map((repair, at) => <li key={at}>{brief(repair, 300)}</li>)}</ul>}
    </>
  );
}

function Examples({ base, model }: { base: string; model: string }) {
  const body = JSON.stringify({ model, messages: [{ role: "user", content: "What is the weather in Paris?" }], tools: [{ type: "function", function: { name: "get_weather", parameters: { type: "object", properties: { location: { type: "string" } }, required: ["location"] } } }] });
  const curl = `curl ${base}/chat/completions -H 'content-type: application/json' -d '${body.replaceAll("'", "'\\''")}'`;
  const python = `from openai import OpenAI\nclient = OpenAI(base_url="${base}", api_key="none")`;
  return (
    <section aria-labelledby="clients">
      <h2 id="clients">From a client</h2>
      <Text source={curl} label="A request with curl" /> <CopyButton label="Copy" make={() => curl} />
      <Text source={python} label="OpenAI's client for Python" /> <CopyButton label="Copy" make={() => python} />
    </section>
  );
}

render(<Home />, document.getElementById("app")!);
