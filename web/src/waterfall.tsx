// Waterfall: where the time went. The runs of this answer with waits for the prompt and for tools, and the answers of the
// conversation with what lay between them.

import { useMemo, useState } from "preact/hooks";
import { clock, isFailed } from "./list.tsx";
import { brief, count, duration, plural, Rows, useSize } from "./parts.tsx";
import type { Neighbours } from "./conversation.ts";
import { usageOf, type ParserEvent, type Recording, type Run } from "./recording.ts";
import type { Go, Place } from "./place.ts";

interface Bar { from: number; to: number; kind: string }
interface Row { label: string; note: string; bars: Bar[]; go?: Partial<Place>; isBad?: boolean }

const choiceOf = (choice: number, hasChoices: boolean) => (hasChoices ? `, choice ${choice}` : "");

function runNote(run: Run, end: number): string {
  const calls = run.events.filter((event) => event.name === "call_begin").map((event) => event.call).slice(0, 4);
  const prompt = run.promptTokens || (usageOf(run.finish?.usage).prompt ?? 0);
  const out = run.tokens.length > 0 ? plural(run.tokens.length, "token") : plural(run.pieces.length, "piece");
  const parts = [`${duration(end - run.at)}: ${plural(prompt, "token")} in, ${out} out`];
  if (calls.length > 0) parts.push(`calls ${calls.join(", ")}`);
  for (const { server, error } of run.attempts) parts.push(error === "" ? `by ${server}` : `${server} failed: ${error}`);
  return parts.join("; ");
}

/// The tools that the server ran. The server begins all calls of an answer at the same time, and tells them when the last one has
/// ended, so what lies between the same two runs of a choice has one beginning.
function toolRows(recording: Recording, hasChoices: boolean): Row[] {
  const groups = new Map<string, ParserEvent[]>();
  for (const event of recording.events) {
    if (!event.tool?.hasRun) continue;
    const runs = recording.runs.slice(0, event.tool.runsBefore).reduce((all, run) => all + (run.choice === event.choice ? 1 : 0), 0);
    const group = groups.get(`${event.choice} ${runs}`);
    if (group) group.push(event);
    else groups.set(`${event.choice} ${runs}`, [event]);
  }
  return [...groups.values()].flatMap((group) => {
    const from = Math.max(0, Math.min(...group.map((event) => event.at - event.tool!.us)));
    return group.map((event) => ({
      label: `tool ${event.call}${choiceOf(event.choice, hasChoices)}`,
      note: `${duration(event.tool!.us)}: ${event.code}, ${plural(event.tool!.bytes, "byte")}`,
      bars: [{ from, to: from + event.tool!.us, kind: "tools" }],
      go: { run: Math.max(0, event.tool!.runsBefore - 1), token: -1, byte: -1, step: event.step, view: "timeline" as const },
      isBad: event.tool!.isError,
    }));
  });
}

export function rowsOf(recording: Recording): Row[] {
  const hasChoices = recording.runs.some((run) => run.choice !== recording.runs[0]!.choice);
  const rows = toolRows(recording, hasChoices);
  const hasTools = rows.length > 0;
  const lastOf = new Map<string, { run: Run; end: number }>(); // the run before of what goes on run by run, and when it ended
  recording.runs.forEach((run, at) => {
    // Questions of a recursive model do not follow each other: many are under way at once.
    const isRoot = run.part.startsWith("root");
    const series = run.part === "" || isRoot ? `${run.choice} ${run.part}` : undefined;
    const before = series === undefined ? undefined : lastOf.get(series);
    if (before && run.at > before.end && !hasTools) {
      const tools = before.run.events.filter((event) => event.at >= before.end && /tool/.test(event.code));
      const names = tools.map((event) => event.message || event.code).slice(0, 3).join("; ");
      rows.push({ label: tools.length > 0 ? "tools" : isRoot ? "code and its questions" : "between runs", note: `${duration(run.at - before.end)}${names !== "" ? `: ${names}` : ""}`, bars: [{ from: before.end, to: run.at, kind: "tools" }], isBad: tools.some((event) => event.code === "tool_failed") });
    }
    const first = run.tokens[0]?.at ?? run.pieces[0]?.at ?? run.last;
    // Diagnostics tell of tools too, which run after it.
    const end = Math.max(run.last, run.events.findLast((event) => event.name !== "diagnostic" && event.name !== "tool_run")?.at ?? 0);
    rows.push({
      label: `${run.part === "" ? "run" : run.part} ${run.number}${choiceOf(run.choice, hasChoices)}`,
      note: runNote(run, end),
      bars: [{ from: run.at, to: first, kind: "wait" }, { from: first, to: end, kind: "made" }],
      go: { run: at, token: -1, byte: -1, step: -1, view: "timeline" },
      isBad: run.error !== "" || (run.finish !== undefined && run.finish.error !== ""),
    });
    if (series !== undefined) lastOf.set(series, { run, end });
  });
  return hasTools ? rows.sort((a, b) => a.bars[0]!.from - b.bars[0]!.from) : rows;
}

export function conversationRows(neighbours: Neighbours, chosen: string): Row[] {
  const rows: Row[] = [];
  const began = neighbours.all[0]?.began ?? 0;
  let before = 0;
  neighbours.all.forEach((entry) => {
    const from = entry.began - began;
    if (rows.length > 0 && from > before) rows.push({ label: "the client", note: `${duration(from - before)}: tools, people, other work`, bars: [{ from: before, to: from, kind: "tools" }] });
    rows.push({
      label: `${clock(entry.began).slice(11)}${entry.name === chosen ? " (this)" : ""}`,
      note: `${duration(entry.us)}: ${plural(entry.tokens, "token")} out${entry.tools.length > 0 ? `, calls ${entry.tools.slice(0, 4).join(", ")}` : ""}`,
      bars: [{ from, to: from + entry.us, kind: "made" }],
      go: { name: entry.name, run: 0, token: -1, byte: -1, step: -1 },
      isBad: isFailed(entry),
    });
    before = Math.max(before, from + entry.us);
  });
  return rows;
}

interface Props { recording: Recording; neighbours: Neighbours; place: Place; go: Go; version: number }

export function Waterfall({ recording, neighbours, place, go, version }: Props) {
  const [whole, setWhole] = useState(false);
  const [chosen, setChosen] = useState(-1);
  const hasMore = neighbours.all.length > 1;
  const rows = useMemo(() => (whole ? conversationRows(neighbours, place.name) : rowsOf(recording)), [whole, recording, version, neighbours, place.name]);
  const end = rows.reduce((most, row) => row.bars.reduce((latest, bar) => Math.max(latest, bar.to), most), whole ? 1 : Math.max(1, recording.last));
  // Of many rows those in sight have the axis, or their bars would be lines.
  const [range, setRange] = useState<[number, number]>([0, 0]);
  const [isNear, setIsNear] = useState(rows.length > 60);
  const inSight = isNear ? rows.slice(range[0], range[1]) : [];
  const from = inSight.length > 0 ? Math.min(...inSight.flatMap((row) => row.bars.map((bar) => bar.from))) : 0;
  const to = inSight.length > 0 ? Math.max(from + 1, ...inSight.flatMap((row) => row.bars.map((bar) => bar.to))) : end;
  const { ref, size } = useSize<HTMLDivElement>();
  const width = Math.max(100, Math.floor(0.5 * (size.width - 190)));
  const x = (at: number) => (width * (at - from)) / (to - from);
  const sum = (kind: string) => rows.reduce((all, row) => all + row.bars.reduce((part, bar) => part + (bar.kind === kind ? bar.to - bar.from : 0), 0), 0);
  const usage = (recording.runs.some((run) => run.usage) ? recording.runs.map((run) => usageOf(run.usage)) : recording.finishes.map((finish) => usageOf(finish.usage)));
  const total = (of: (one: ReturnType<typeof usageOf>) => number | undefined) => usage.reduce((all, one) => all + (of(one) ?? 0), 0);
  return (
    <div class="waterfall" ref={ref}>
      <ul class="facts">
        <li>{duration(end)} in all</li>
        <li>{duration(sum("made"))} writing</li>
        {!whole && <li>{duration(sum("wait"))} until first tokens</li>}
        <li>{duration(sum("tools"))} {whole ? "between answers" : "in tools and between runs"}</li>
        {!whole && usage.length > 0 && <li>{count(total((one) => one.prompt))} tokens in, {count(total((one) => one.completion))} out</li>}
        {rows.length > 20 && <li><label><input type="checkbox" checked={isNear} onChange={(event) => setIsNear(event.currentTarget.checked)} /> the axis shows the rows in sight</label></li>}
        {hasMore && <li><label><input type="checkbox" checked={whole} onChange={(event) => { setWhole(event.currentTarget.checked); setChosen(-1); }} /> the whole conversation ({plural(neighbours.all.length, "answer")})</label></li>}
      </ul>
      <p class="legend" aria-label="Colours"><span class="swatch wait" /> until the first token <span class="swatch made" /> writing <span class="swatch tools" /> tools and waiting</p>
      <div class="axis"><svg width={width} height="16" role="img" aria-label={`Time axis from ${duration(from)} to ${duration(to)}`}>
        {[0, 0.25, 0.5, 0.75].map((part) => <g key={part}><line x1={width * part} x2={width * part} y1="0" y2="16" /><text x={width * part + 3} y="12">{duration(from + (to - from) * part)}</text></g>)}
      </svg></div>
      <Rows
        count={rows.length} height={26} label="Runs and waits" selected={chosen} onRange={(first, last) => setRange([first, last])}
        onSelect={setChosen}
        onOpen={(at) => { const to = rows[at]?.go; if (to) go(to); }}
        row={(at) => {
          const row = rows[at]!;
          return (
            <>
              <span class={`bar-label ${row.isBad ? "bad" : ""}`}>{brief(row.label, 40)}</span>
              <svg class="bars" width={width} height="18" aria-hidden="true">
                {row.bars.map((bar, place) => <rect key={place} class={`${bar.kind} ${row.isBad ? "failed" : ""}`} x={x(bar.from)} y="3" width={Math.max(1, x(bar.to) - x(bar.from))} height="12" />)}
              </svg>
              <span class="bar-note dim">{brief(row.note, 160)}</span>
            </>
          );
        }}
      />
    </div>
  );
}
