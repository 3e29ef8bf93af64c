// The inspector: the list of answers on the left, the pictures of one of them on the right.

import { Component, render, type ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import "./app.css";
import { key, readOn, RequestError, setKey, type Entry } from "./api.ts";
import { neighboursOf, type Neighbours } from "./conversation.ts";
import { curl, testRow } from "./copy.ts";
import { AnswerList, clock, isUnfinished, useEntries } from "./list.tsx";
import { Masks } from "./masks.tsx";
import { brief, count, CopyButton, duration, KeyForm, plural, Tabs, Text } from "./parts.tsx";
import { hashOf, kViews, usePlace, type Go, type Place } from "./place.ts";
import { isRepair, Recording } from "./recording.ts";
import { stepBehind, Timeline } from "./timeline.tsx";
import { Waterfall } from "./waterfall.tsx";
import { Xray } from "./xray.tsx";

/// What a picture throws is shown in its place; the rest of the page goes on.
class Guard extends Component<{ children: ComponentChildren }, { message: string }> {
  override state = { message: "" };
  static override getDerivedStateFromError(error: unknown) {
    return { message: String(error) };
  }
  override render() {
    return this.state.message === "" ? this.props.children : <p class="bad" role="alert">This cannot be drawn: {brief(this.state.message, 300)}</p>;
  }
}

function useRecording(name: string, session: number, trouble: (error: unknown) => void) {
  const [recording, setRecording] = useState<Recording>();
  const [version, setVersion] = useState(0);
  const [isReading, setIsReading] = useState(false);
  useEffect(() => {
    setRecording(undefined);
    setVersion(0);
    if (name === "") return;
    const stop = new AbortController();
    const fresh = new Recording();
    const show = () => {
      setRecording(fresh);
      setVersion((old) => old + 1);
    };
    let quiet = 0;
    const read = async (): Promise<void> => {
      setIsReading(true);
      const before = fresh.bytes;
      await readOn(name, fresh, stop.signal, show);
      setIsReading(false);
      if (fresh.bytes > before || before === 0) show();
      quiet = fresh.bytes > before ? 0 : quiet + 1;
      // One that is being written has no line `end` yet. One that a crash cut never gets it, so the questions become rare.
      if (fresh.isWhole || fresh.isTooLarge || fresh.cut !== "") return;
      await new Promise((resolve) => setTimeout(resolve, Math.min(30_000, 500 * 2 ** Math.min(quiet, 6))));
      if (!stop.signal.aborted) return read();
    };
    read().catch((error: unknown) => {
      if (stop.signal.aborted) return;
      setIsReading(false);
      if (fresh.bytes > 0) show();
      trouble(error);
    });
    return () => stop.abort();
  }, [name, session]);
  return { recording, version, isReading };
}

function App() {
  const [place, go] = usePlace();
  const [session, setSession] = useState(0);
  const [wantsKey, setWantsKey] = useState("");
  const [problem, setProblem] = useState("");
  const [isHelp, setIsHelp] = useState(false);
  const trouble = (error: unknown) => {
    if (error instanceof RequestError && error.wantsKey) setWantsKey(key() === "" ? "This server asks for an API key." : `The server refuses this key: ${error.message}`);
    else setProblem(error instanceof Error ? error.message : String(error));
  };
  const { all, more, older, isRead } = useEntries(trouble, session);
  const { recording, version, isReading } = useRecording(place.name, session, trouble);
  const open = (name: string) => {
    setProblem("");
    go({ name, run: 0, token: -1, byte: -1, step: -1 });
  };
  useKeys(place, go, recording, () => setIsHelp((old) => !old));
  useEffect(() => {
    document.title = place.name === "" ? "Tenon inspector" : `${recording?.head?.model ?? "…"} · ${place.name.split("/").at(-1) ?? ""} · Tenon inspector`;
  }, [place.name, recording?.head]);

  if (wantsKey !== "") {
    return (
      <main class="alone">
        <h1>Tenon inspector</h1>
        <KeyForm message={wantsKey} take={(value) => { setKey(value); setWantsKey(""); setProblem(""); setSession((old) => old + 1); }} />
      </main>
    );
  }
  return (
    <div class={`app ${place.name === "" ? "no-answer" : "with-answer"}`}>
      <header class="top">
        <h1><a href="/" title="The server's first page">Tenon</a> inspector</h1>
        {place.name !== "" && <button class="back" onClick={() => go({ name: "", run: 0, token: -1, byte: -1, step: -1 })}>All answers</button>}
        <button onClick={() => setIsHelp(!isHelp)} aria-expanded={isHelp} aria-controls="help">Keys</button>
      </header>
      {isHelp && <Help close={() => setIsHelp(false)} />}
      <AnswerList all={all} more={more} older={older} isRead={isRead} chosen={place.name} open={open} />
      <main>
        {problem !== "" && <p class="bad" role="alert">{brief(problem, 500)} <button onClick={() => { setProblem(""); setSession((old) => old + 1); }}>Try again</button></p>}
        {place.name === "" && <p class="empty">Choose an answer. <kbd>/</kbd> searches, arrows move, <kbd>Enter</kbd> opens.</p>}
        {place.name !== "" && !recording && problem === "" && <p class="empty" role="status">{isReading ? "Reading…" : ""}</p>}
        {recording && <Guard key={place.name}><Answer recording={recording} version={version} isReading={isReading} place={place} go={go} all={all} /></Guard>}
      </main>
    </div>
  );
}

function Help({ close }: { close: () => void }) {
  const keys = [
    ["/", "search; Enter there searches in texts"], ["↑ ↓ j k", "move in the list that has the focus"], ["Enter", "open"],
    ["1 2 3 4 5", "Prompt, Timeline, Masks, Waterfall, Request"], ["← →", "the token before, the next one"], ["[ ]", "the run before, the next one"],
    ["Esc", "select nothing; then back to the list"], ["?", "this help"],
  ];
  return (
    <section id="help" class="help" aria-label="Keys">
      <dl>{keys.map(([name, what]) => <><dt><kbd>{name}</kbd></dt><dd>{what}</dd></>)}</dl>
      <button onClick={close}>Close</button>
    </section>
  );
}

function useKeys(place: Place, go: Go, recording: Recording | undefined, help: () => void) {
  const latest = useRef({ place, go, recording, help });
  latest.current = { place, go, recording, help };
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName);
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const { place, go, recording, help } = latest.current;
      if (event.key === "Escape") {
        if (isTyping) return target.blur();
        if (place.token >= 0 || place.byte >= 0 || place.step >= 0) return go({ token: -1, byte: -1, step: -1 });
        const list = document.querySelector<HTMLElement>(".list .rows");
        if (list?.offsetParent === null) go({ name: "" }); // on a narrow page there is room for one of the two
        else list?.focus();
        return;
      }
      if (isTyping) return;
      const run = recording?.runs[place.run];
      const move = (step: number) => {
        if (!run || run.tokens.length === 0) return;
        const token = Math.max(0, Math.min(run.tokens.length - 1, place.token < 0 && step > 0 ? 0 : place.token < 0 ? run.tokens.length - 1 : place.token + step));
        go({ token, byte: -1, step: stepBehind(recording!.steps, run.tokens[token]!) });
      };
      const turn = (step: number) => {
        const to = place.run + step;
        if (recording && to >= 0 && to < recording.runs.length) go({ run: to, token: -1, byte: -1, step: -1 });
      };
      const view = kViews[Number(event.key) - 1];
      if (view && place.name !== "") go({ view: view[0] });
      else if (event.key === "/") document.getElementById("search")?.focus();
      else if (event.key === "?") help();
      else if (event.key === "ArrowRight") move(1);
      else if (event.key === "ArrowLeft") move(-1);
      else if (event.key === "]") turn(1);
      else if (event.key === "[") turn(-1);
      else return;
      event.preventDefault();
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);
}

interface AnswerProps { recording: Recording; version: number; isReading: boolean; place: Place; go: Go; all: readonly Entry[] }

function Answer({ recording, version, isReading, place, go, all }: AnswerProps) {
  const [neighbours, setNeighbours] = useState<Neighbours>({ all: [] });
  const listed = all.find((entry) => entry.name === place.name);
  const hasList = listed !== undefined;
  const isStarted = recording.runs.length > 0;
  useEffect(() => {
    setNeighbours({ all: [] });
    if (!hasList || !isStarted || (place.view !== "prompt" && place.view !== "waterfall")) return;
    const stop = new AbortController();
    neighboursOf(place.name, recording, all, stop.signal, (found) => { if (!stop.signal.aborted) setNeighbours(found); }).catch(() => {}); // the picture does without them
    return () => stop.abort();
  }, [place.name, place.view, hasList, isStarted]);
  const head = recording.head;
  const run = recording.runs[Math.min(place.run, recording.runs.length - 1)];
  const runAt = run ? recording.runs.indexOf(run) : 0;
  const errors = recording.finishes.filter((finish) => finish.error !== "");
  const repairs = recording.events.filter(isRepair);
  const guarantees = [...new Set(recording.finishes.map((finish) => finish.guarantee))].filter((one) => one !== "");
  const request = useMemo(() => JSON.stringify(head?.request ?? {}, null, 2), [head]);
  if (!head) return <p class="bad" role="alert">{isReading ? "Reading…" : "This file is not a recording: its first line does not say so."}</p>;
  return (
    <article aria-label="Answer">
      <header class="answer-head">
        <h2>{brief(head.model, 80) || "a model"} <span class="dim">{brief(head.path, 60)}{head.stream ? ", streamed" : ""}</span></h2>
        <ul class="facts">
          <li><time>{clock(head.began)}</time></li>
          <li>{duration(recording.last)}</li>
          {recording.status !== undefined ? <li class={recording.status >= 400 ? "bad" : ""}>status {recording.status}</li> : recording.cut === "" && <li class="live-note" role="status">{isReading ? "reading…" : listed === undefined ? "no end yet: under way, or cut by a crash" : isUnfinished(listed) ? "never finished" : "under way"}</li>}
          {guarantees.map((one) => <li key={one}>{brief(one, 20)}</li>)}
          {[...new Set(recording.finishes.map((finish) => finish.reason))].slice(0, 4).map((reason) => <li key={reason}>{brief(reason, 20)}</li>)}
          {repairs.length > 0 && <li class="repaired">{plural(repairs.length, "repair")}: {brief([...new Set(repairs.map((event) => event.code))].join(", "), 100)}</li>}
          <li class="dim">{brief(head.id, 60)}</li>
          {head.replayOf && <li>{head.replayOf.tokens > 0 ? `fork of ${brief(head.replayOf.id, 60)}, which made the first ${plural(head.replayOf.tokens, "token")}` : `replay of ${brief(head.replayOf.id, 60)}`}</li>}
        </ul>
        {errors.slice(0, 3).map((finish) => <p key={finish.step} class="bad" role="alert">{brief(finish.error, 600)}</p>)}
        {recording.cut !== "" && <p class="note">The file was full, so what came later is missing: {brief(recording.cut, 200)}</p>}
        {recording.isTooLarge && <p class="note">The file is larger than recordings become. What lies behind {count(65)} MiB is not read.</p>}
        {recording.brokenLines > 0 && <p class="note">{plural(recording.brokenLines, "line")} of the file cannot be read.</p>}
        <div class="actions">
          {run && <CopyButton label="Copy as test row" make={() => testRow(recording, run)} />}
          <CopyButton label="Copy as curl" make={() => curl(recording)} />
          <CopyButton label="Copy link" make={() => location.origin + location.pathname + hashOf(place)} />
          {recording.runs.length > 1 && (
            <label>Run <select value={runAt} onChange={(event) => go({ run: Number(event.currentTarget.value), token: -1, byte: -1, step: -1 })}>
              {runChoices(recording.runs.length, runAt).map((at) => <option key={at} value={at}>{recording.runs[at]!.number}, choice {recording.runs[at]!.choice}</option>)}
            </select> of {count(recording.runs.length)}</label>
          )}
        </div>
        <Tabs tabs={kViews} chosen={place.view} choose={(view) => go({ view })} label="Pictures" />
      </header>
      <div id="picture" class="picture" role="tabpanel" aria-labelledby={`tab-${place.view}`}>
        <Guard key={`${place.view}-${runAt}`}>
          {place.view === "request" && <Text source={request} label="The request" />}
          {place.view === "waterfall" && <Waterfall recording={recording} neighbours={neighbours} place={place} go={go} version={version} />}
          {place.view !== "request" && place.view !== "waterfall" && !run && <p class="empty">No run of a model: the request ended before, or was refused.</p>}
          {run && place.view === "prompt" && <Xray recording={recording} run={run} place={place} go={go} neighbours={neighbours} />}
          {run && place.view === "timeline" && <Timeline recording={recording} run={run} place={place} go={go} version={version} />}
          {run && place.view === "masks" && <Masks recording={recording} run={run} place={place} go={go} />}
        </Guard>
      </div>
    </article>
  );
}

/// Of many runs those around the chosen one: a list box of thousands is slow.
const runChoices = (total: number, at: number): number[] => {
  const from = Math.max(0, Math.min(at - 100, total - 200));
  return Array.from({ length: Math.min(200, total) }, (_, place) => from + place);
};

render(<App />, document.getElementById("app")!);
