// Timeline: the output token by token with its time, the parser's events below, and a slider that cuts the stream anywhere and shows
// what the client knows at that moment.

import { useMemo, useRef, useState } from "preact/hooks";
import { ClientFold, type ClientCall, type ClientView } from "./client_view.ts";
import { lastAtMost } from "./bytes.ts";
import { brief, count, CopyButton, duration, plural, Rows, Text, useSize, visible } from "./parts.tsx";
import { isRepair, outputOf, type ParserEvent, type Recording, type Run, type Step, type Token } from "./recording.ts";
import { TextView, type Segment } from "./text_view.tsx";
import type { Go, Place } from "./place.ts";

const kColors: readonly [string, string][] = [["reasoning", "reasoning"], ["content", "content"], ["arguments", "arguments"], ["marker", "marker"], ["held", "held back"]];

/// The stream's bytes until a step, folded; going on is cheap, going back begins anew.
function useClientView(recording: Recording, until: number): ClientView {
  const kept = useRef<{ recording: Recording; fold: ClientFold; next: number } | null>(null);
  if (!kept.current || kept.current.recording !== recording || kept.current.next > until + 1) {
    const head = recording.head;
    kept.current = { recording, fold: new ClientFold(head?.path ?? "", head?.stream ?? false), next: 0 };
  }
  const state = kept.current;
  for (; state.next <= until && state.next < recording.steps.length; ++state.next) {
    const step = recording.steps[state.next]!;
    if (step.kind === "sent") state.fold.feed(step.text);
  }
  return state.fold.view;
}

interface Props { recording: Recording; run: Run; place: Place; go: Go; version: number }

export function Timeline({ recording, run, place, go, version }: Props) {
  const steps = recording.steps;
  const end = steps.length - 1;
  const cut = place.step >= 0 && place.step < end ? place.step : end;
  const isCut = cut < end;
  const view = useClientView(recording, cut);
  const bytes = useMemo(() => outputOf(run), [run, version]);
  const segments = useMemo(() => segmentsOf(run), [run, version]);
  const events = recording.events;
  const token = place.token >= 0 ? run.tokens[place.token] : undefined;
  // What is after the cut is dim.
  const lastToken = lastBefore(run.tokens, cut);
  const dimFrom = isCut ? (lastToken >= 0 ? run.tokens[lastToken]!.end : 0) : Infinity;
  const eventSteps = useMemo(() => events.map((event) => event.step), [events, version]);
  const tokenBegins = useMemo(() => run.tokens.map((each) => each.begin), [run, version]);
  const chosenEvent = token ? events.findIndex((event) => event.token === token) : isCut && events.length > 0 ? lastAtMost(eventSteps, cut) : -1;

  const slide = (step: number) => {
    const at = Math.max(0, Math.min(end, step));
    const last = lastBefore(run.tokens, at);
    go({ step: at >= end ? -1 : at, token: at >= end ? -1 : last });
  };
  const pick = (byte: number) => {
    const index = lastAtMost(tokenBegins, byte);
    const picked = run.tokens[index];
    if (picked) go({ token: index, step: stepBehind(steps, picked) });
  };
  return (
    <div class="timeline">
      <Pace run={run} recording={recording} cut={isCut ? steps[cut]!.at : undefined} token={token} />
      <div class="slider">
        <label for="cut">Cut the stream</label>
        <button aria-label="One step back" onClick={() => slide(cut - 1)}>◀</button>
        <input
          id="cut" type="range" min={0} max={Math.max(0, end)} value={cut}
          aria-valuetext={`step ${cut + 1} of ${steps.length}, ${duration(steps[cut]?.at ?? 0)}`}
          onInput={(event) => slide(Number(event.currentTarget.value))}
        />
        <button aria-label="One step on" onClick={() => slide(cut + 1)}>▶</button>
        <output for="cut" class="num">{duration(steps[cut]?.at ?? 0)} · step {count(cut + 1)} of {count(steps.length)}{steps[cut] && ` · ${steps[cut]!.kind}`}</output>
        {isCut && <button onClick={() => go({ step: -1 })}>To the end</button>}
      </div>
      <div class="split">
        <div class="main">
          <p class="legend" aria-label="Colours">{kColors.map(([name, title]) => <span key={name}><span class={`seg output ${name}`}>{title}</span> </span>)}</p>
          {run.opening !== "" && <p class="opening-line dim">Tenon wrote the beginning: <code>{brief(run.opening, 300)}</code></p>}
          {run.tokens.length > 0 ? (
            <TextView bytes={bytes} segments={segments} borders={tokenBegins} selection={token} onPick={pick} dimFrom={dimFrom} label="The output, token by token" />
          ) : (
            <Pieces run={run} cut={cut} />
          )}
          {token && <TokenFacts token={token} go={go} />}
          {events[chosenEvent]?.tool && <ToolFacts event={events[chosenEvent]!} />}
          <h3>Events ({count(events.length)})</h3>
          <Rows
            count={events.length} height={22} label="Events" className="events mono" selected={chosenEvent}
            onSelect={(at) => {
              const event = events[at]!;
              go({ step: event.step, token: event.token?.index ?? -1, run: event.token ? recording.runs.indexOf(event.token.run) : place.run });
            }}
            rowClass={(at) => `${events[at]!.step > cut ? "later" : ""} event-${isRepair(events[at]!) ? "diagnostic" : "other"}`}
            row={(at) => <EventRow event={events[at]!} several={recording.runs.length > 1} />}
          />
        </div>
        <aside aria-label="The client's view">
          <h3>{isCut ? `What the client knows at ${duration(steps[cut]?.at ?? 0)}` : "What the client got"}</h3>
          <ClientPane view={view} recording={recording} cut={cut} />
        </aside>
      </div>
    </div>
  );
}

const lastBefore = (tokens: readonly Token[], step: number): number => {
  let low = -1;
  let high = tokens.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tokens[middle]!.step <= step) low = middle;
    else high = middle - 1;
  }
  return low;
};

/// The last step that follows from a token: the events and the bytes before the next token.
export function stepBehind(steps: readonly Step[], token: Token): number {
  let at = token.step;
  while (at + 1 < steps.length && !["token", "piece", "run"].includes(steps[at + 1]!.kind)) ++at;
  return at;
}

const segmentsOf = (run: Run): Segment[] =>
  run.tokens.map((token) => ({
    begin: token.begin,
    end: token.end,
    kind: `output ${token.state}${token.control ? " control" : ""}${token.legal === 1 ? " forced" : ""}`,
    title: `token ${token.index}, ${duration(token.at)}, ${token.state}${token.legal !== undefined ? `, ${count(token.legal)} legal` : ""}`,
  }));

function EventRow({ event, several }: { event: ParserEvent; several: boolean }) {
  const words = [event.code, event.call, event.callId, event.message, event.text].filter((part) => part !== "").map((part) => brief(part, 300)).join("  ");
  return (
    <>
      <span class="num time">{duration(event.at)}</span>
      {several && <span class="dim"> choice {event.choice}</span>}
      <span class={`event-name ${event.name}`}> {brief(event.name, 30)}</span>
      <span class="dim"> @{count(event.byte)}</span>
      {event.name.startsWith("call_") && <span class="dim"> #{event.index}</span>}
      {event.incomplete && <span class="bad"> incomplete</span>}
      <span class="event-text"> {words}</span>
    </>
  );
}

function TokenFacts({ token, go }: { token: Token; go: Go }) {
  const before = token.run.tokens[token.index - 1];
  return (
    <p class="token-facts" aria-label="The selected token">
      Token {token.index}{token.id >= 0 && `, id ${token.id}`}: <code>{visible(token.text).replaceAll("\n", "↵") || "no text"}</code>
      {token.raw && <> (bytes <code>{[...token.raw.slice(0, 16)].map((byte) => byte.toString(16).padStart(2, "0")).join(" ")}</code>)</>}
      {" "}at {duration(token.at)}, {duration(token.at - (before?.at ?? token.run.at))} after {before ? "the one before" : "the run's begin"}.
      {token.legal !== undefined && ` ${plural(token.legal, "token")} legal.`}{" "}
      <button onClick={() => go({ view: "masks" })}>Its mask</button> <button onClick={() => go({ view: "prompt" })}>Its place behind the prompt</button>
    </p>
  );
}

function ToolFacts({ event }: { event: ParserEvent }) {
  const tool = event.tool!;
  return (
    <section class="tool-facts" aria-label="The selected call of a tool">
      <p>
        The server {tool.hasRun ? `ran ${brief(event.call, 100)} in ${duration(tool.us)}: ${brief(event.code, 30)}, ${plural(tool.bytes, "byte")}` : `did not run ${brief(event.call, 100)}: ${brief(event.code, 30)}`}.
      </p>
      {tool.args !== "" && <Text source={tool.args} label="Arguments of the tool" />}
      {tool.output !== "" && <Text source={tool.output} label="What the tool said" />}
    </section>
  );
}

function Pieces({ run, cut }: { run: Run; cut: number }) {
  if (run.pieces.length === 0) return <p class="empty">This run made no tokens.</p>;
  return (
    <Rows
      count={run.pieces.length} height={22} label="Pieces that the upstream reported" className="mono" role="document"
      rowClass={(at) => (run.pieces[at]!.step > cut ? "later" : "")}
      row={(at) => {
        const piece = run.pieces[at]!;
        return <><span class="num time">{duration(piece.at)}</span> <span class="event-name">{brief(piece.what, 30)}</span> <span class="event-text">{brief([piece.name, piece.text].filter((part) => part !== "").join("  "), 300)}</span></>;
      }}
    />
  );
}

/// How fast the tokens came: the slowest gap in each of up to 300 parts of the time.
function Pace({ run, recording, cut, token }: { run: Run; recording: Recording; cut: number | undefined; token: Token | undefined }) {
  const { ref, size } = useSize<HTMLDivElement>();
  const height = 48;
  const whole = Math.max(1, recording.last);
  const bars = useMemo(() => {
    const buckets = new Map<number, { gap: number; tokens: number; state: string }>();
    let last = run.tokens[0]?.at ?? 0;
    for (const each of run.tokens) {
      const at = Math.min(299, Math.floor((300 * each.at) / whole));
      const bucket = buckets.get(at) ?? { gap: 0, tokens: 0, state: each.state };
      bucket.gap = Math.max(bucket.gap, each.at - last);
      ++bucket.tokens;
      buckets.set(at, bucket);
      last = each.at;
    }
    return [...buckets];
  }, [run, run.tokens.length, whole]);
  const slowest = Math.max(1, ...bars.map(([, bucket]) => bucket.gap));
  const x = (at: number) => (size.width * at) / whole;
  const first = run.tokens[0];
  const seconds = (run.last - (first?.at ?? run.at)) / 1e6;
  return (
    <div class="pace" ref={ref}>
      <svg width={size.width} height={height} role="img" aria-label={`Pace: ${run.tokens.length} tokens, the longest wait between two is ${duration(slowest)}`}>
        {first && <rect class="wait" x={x(run.at)} y={0} width={Math.max(0, x(first.at) - x(run.at))} height={height} />}
        {bars.map(([at, bucket]) => (
          <rect key={at} class={`bar ${bucket.state}`} x={(size.width * at) / 300} width={Math.max(1, size.width / 300 - 0.5)} y={height - Math.max(2, (height * bucket.gap) / slowest)} height={Math.max(2, (height * bucket.gap) / slowest)} />
        ))}
        {token && <line class="token-line" x1={x(token.at)} x2={x(token.at)} y1={0} y2={height} />}
        {cut !== undefined && <line class="cut-line" x1={x(cut)} x2={x(cut)} y1={0} y2={height} />}
      </svg>
      <p class="dim num">
        {first ? `first token after ${duration(first.at - run.at)}; ${plural(run.tokens.length, "token")}` : "no tokens"}
        {seconds > 0 && run.tokens.length > 1 && `, ${((run.tokens.length - 1) / seconds).toFixed(1)} per second; the longest wait between two is ${duration(slowest)}`}
      </p>
    </div>
  );
}

/// Of many calls the last ones.
function Calls({ calls }: { calls: readonly ClientCall[] }) {
  const [most, setMost] = useState(20);
  const first = Math.max(0, calls.length - most);
  return (
    <>
      {first > 0 && <button onClick={() => setMost(most + 100)}>{plural(first, "earlier call")}</button>}
      {calls.slice(first).map((call, at) => (
        <div key={first + at} class="call">
          <h4>Call {first + at}: <code>{brief(call.name, 100)}</code> <span class="dim">{brief(call.id, 60)}</span></h4>
          <Text source={call.input} label={`Arguments of call ${first + at}`} />
        </div>
      ))}
    </>
  );
}

function ClientPane({ view, recording, cut }: { view: ClientView; recording: Recording; cut: number }) {
  const [isOpen, setIsOpen] = useState(false);
  const sent = () => recording.steps.slice(0, cut + 1).map((step) => (step.kind === "sent" ? step.text : "")).join("");
  return (
    <div class="client">
      <p class="dim">
        {plural(view.events, "event")}, {plural(view.bytes, "character")}
        {view.isMidEvent && ", cut within an event"}
        {view.isDone ? ", the stream is over" : ""}
        {view.guarantee !== "" && `, ${brief(view.guarantee, 20)}`}
      </p>
      {view.error !== "" && <p class="bad" role="alert">{brief(view.error, 1000)}</p>}
      {view.choices.size === 0 && view.error === "" && <p class="dim">Nothing yet.</p>}
      {[...view.choices].map(([number, choice]) => (
        <section key={number} class="choice">
          {view.choices.size > 1 && <h4>Choice {number}</h4>}
          {choice.reasoning !== "" && <><h4>Reasoning</h4><Text source={choice.reasoning} label="Reasoning" /></>}
          {choice.content !== "" && <><h4>Content</h4><Text source={choice.content} label="Content" /></>}
          <Calls calls={choice.calls} />
          {choice.finish !== "" && <p>Ended: <code>{brief(choice.finish, 40)}</code></p>}
        </section>
      ))}
      {view.repairs.length > 0 && <section><h4>Repairs that it was told</h4><ul>{view.repairs.slice(0, 64).map((repair, at) => <li key={at}>{brief(repair, 400)}</li>)}</ul></section>}
      <details onToggle={(event) => setIsOpen(event.currentTarget.open)}>
        <summary>The bytes as they were sent</summary>
        {isOpen && <><CopyButton label="Copy them" make={sent} /><Text source={sent()} label="The bytes as they were sent" /></>}
      </details>
    </div>
  );
}

