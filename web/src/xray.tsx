// Prompt X-ray: the prompt as the model reads it, with what the model wrote behind it. Template and data have colours, control tokens
// are boxed, and each byte says which message or tool it came from.

import { useMemo } from "preact/hooks";
import { decode, encode, joined, lastAtMost, utf8Size } from "./bytes.ts";
import { originsOf, partsOf, type Source } from "./origin.ts";
import { brief, count, percent, plural, Rows, Text } from "./parts.tsx";
import type { Neighbours } from "./conversation.ts";
import { list, text } from "./json.ts";
import { outputOf, usageOf, type Recording, type Run } from "./recording.ts";
import { TextView, type Segment } from "./text_view.tsx";
import type { Go, Place } from "./place.ts";

interface Picture {
  bytes: Uint8Array; // prompt, opening, output
  segments: Segment[];
  origins: (Source | undefined)[]; // of the segments
  spanOrigins: (Source | undefined)[];
  borders: number[] | undefined;
  promptEnd: number;
  outputBegin: number;
}

/// The prompt's spans, cut where control tokens begin and end. Only in the template's text are they control tokens.
function segmentsOf(run: Run, origins: readonly (Source | undefined)[]): { segments: Segment[]; origins: (Source | undefined)[] } {
  const controls = list(run.madeBy["controls"]).map((control) => text(control)).filter((control) => control !== "").slice(0, 4096);
  // The longest first, so that one which begins another does not hide it.
  controls.sort((a, b) => b.length - a.length);
  const pattern = controls.length > 0 ? new RegExp(controls.map((control) => control.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|"), "g") : undefined;
  const segments: Segment[] = [];
  const kept: (Source | undefined)[] = [];
  run.spans.forEach((span, at) => {
    if (span.origin === "data") {
      const source = origins[at];
      segments.push({ begin: span.begin, end: span.end, kind: `data ${kindOf(source)}`, title: source ? source.path : "data that is not in the request" });
      kept.push(source);
      return;
    }
    const source = decode(run.prompt.subarray(span.begin, span.end));
    let unit = 0;
    let byte = span.begin;
    const push = (to: number, kind: string, title: string) => {
      if (to === unit) return;
      const end = byte + utf8Size(source.slice(unit, to));
      segments.push({ begin: byte, end, kind, title });
      kept.push(undefined);
      byte = end;
      unit = to;
    };
    for (const found of pattern ? source.matchAll(pattern) : []) {
      push(found.index, "template", "template");
      push(found.index + found[0].length, "template control", "control token");
    }
    push(source.length, "template", "template");
  });
  return { segments, origins: kept };
}

const kindOf = (source: Source | undefined): string => {
  if (!source) return "unknown";
  if (source.part.startsWith("tool ")) return "of-tool";
  const role = source.part.split(", ").at(-1) ?? "";
  return role === "assistant" || role.endsWith("_call") ? "of-assistant" : role === "tool" || role.endsWith("_output") ? "of-result" : role === "user" ? "of-user" : "of-system";
};

export function pictureOf(run: Run, recording: Recording): Picture {
  const spanOrigins = originsOf(run.prompt, run.spans, recording.request);
  const { segments, origins } = segmentsOf(run, spanOrigins);
  const opening = encode(run.opening);
  const bytes = joined([run.prompt, opening, outputOf(run)]);
  const promptEnd = run.prompt.length;
  const outputBegin = promptEnd + opening.length;
  if (opening.length > 0) {
    segments.push({ begin: promptEnd, end: outputBegin, kind: "opening", title: "written by Tenon: the beginning of a demanded call" });
    origins.push(undefined);
  }
  for (const token of run.tokens) {
    if (token.end === token.begin) continue;
    segments.push({ begin: outputBegin + token.begin, end: outputBegin + token.end, kind: `output ${token.state}${token.control ? " control" : ""}`, title: `token ${token.index} of the answer, ${token.state}` });
    origins.push(undefined);
  }
  let borders: number[] | undefined;
  if (run.lengths) {
    borders = [];
    let at = 0;
    for (const length of run.lengths) {
      borders.push(at);
      at += length;
    }
  }
  return { bytes, segments, origins, spanOrigins, borders, promptEnd, outputBegin };
}

interface Props { recording: Recording; run: Run; place: Place; go: Go; neighbours: Neighbours }

export function Xray({ recording, run, place, go, neighbours }: Props) {
  const version = run.tokens.length;
  const picture = useMemo(() => pictureOf(run, recording), [run, version]);
  const parts = useMemo(() => partsOf(run.spans, picture.spanOrigins, picture.borders), [picture]);
  const begins = useMemo(() => picture.segments.map((segment) => segment.begin), [picture]);
  const borders = useMemo(() => {
    if (!picture.borders) return undefined;
    return [...picture.borders, ...run.tokens.map((token) => picture.outputBegin + token.begin)];
  }, [picture]);

  const token = place.token >= 0 ? run.tokens[place.token] : undefined;
  const byte = token ? picture.outputBegin + token.begin : place.byte;
  const chosen = byte >= 0 && begins.length > 0 ? picture.segments[lastAtMost(begins, byte)] : undefined;
  const selection = token ? { begin: byte, end: picture.outputBegin + token.end } : chosen;
  const source = chosen ? picture.origins[picture.segments.indexOf(chosen)] : undefined;
  const usage = usageOf(run.usage ?? run.finish?.usage);
  const before = neighbours.before;
  const shared = before ? sharedWith(run, before.run) : undefined;
  const kept = neighbours.after ? sharedWith(run, neighbours.after.run) : undefined;

  const pick = (at: number) => {
    if (at < picture.outputBegin) return go({ byte: at, token: -1 });
    const index = lastAtMost(run.tokens.map((each) => each.begin), at - picture.outputBegin);
    go({ token: index, byte: -1 });
  };
  const partAt = byte >= 0 ? parts.findIndex((part) => byte >= part.begin && byte < part.end) : -1;

  if (!run.hasPrompt) return <p class="empty">This run has no prompt as text: the contents were not recorded, or the upstream made the prompt itself.</p>;
  return (
    <div class="split">
      <div class="main">
        <ul class="facts">
          <li>{plural(run.prompt.length, "byte")}</li>
          <li>{plural(run.promptTokens || (usage.prompt ?? 0), "token")}</li>
          {usage.cached !== undefined && usage.prompt !== undefined && <li>{count(usage.cached)} from the cache ({percent(usage.cached, usage.prompt)})</li>}
          {before && shared && (
            <li>
              shares {shared.what} with <button class="link" onClick={() => go({ name: before.name, run: 0, token: -1, byte: -1, step: -1 })}>the answer before</button>
            </li>
          )}
          {neighbours.after && kept && (
            <li>
              <button class="link" onClick={() => go({ name: neighbours.after!.name, run: 0, token: -1, byte: -1, step: -1 })}>the next answer</button> keeps {kept.what}
            </li>
          )}
        </ul>
        <p class="legend" aria-label="Colours">
          <span class="seg template">template</span> <span class="seg template control">control token</span>{" "}
          <span class="seg data of-system">system</span> <span class="seg data of-user">user</span> <span class="seg data of-assistant">assistant</span>{" "}
          <span class="seg data of-result">result</span> <span class="seg data of-tool">tool</span> <span class="seg data unknown">other data</span>{" "}
          {run.opening !== "" && <span class="seg opening">opening</span>} <span class="seg output content">answer</span>
        </p>
        <TextView bytes={picture.bytes} segments={picture.segments} borders={borders} selection={selection} onPick={pick} markAt={shared && shared.bytes > 0 ? shared.bytes : undefined} label="The prompt and the answer" />
      </div>
      <aside aria-label="Parts of the prompt">
        {run.changes.length > 0 && (
          <section>
            <h3>What shaping changed</h3>
            <ul>{run.changes.slice(0, 100).map((change, at) => <li key={at}>{brief(change, 500)}</li>)}</ul>
          </section>
        )}
        <section>
          <h3>Selected</h3>
          {!chosen && <p class="dim">Click a place of the prompt, or a part below.</p>}
          {chosen && (
            <dl>
              <dt>bytes</dt><dd>{count(selection!.begin)} to {count(selection!.end)}</dd>
              {borders && <><dt>tokens</dt><dd>{tokensIn(borders, selection!, run)}</dd></>}
              <dt>from</dt><dd>{brief(source?.path ?? chosen.title ?? "", 300)}</dd>
            </dl>
          )}
          {token && <button onClick={() => go({ view: "timeline" })}>Show the token in the timeline</button>}
          {source && <Text source={source.text} label="The request's text" />}
        </section>
        <h3>Parts ({count(parts.length)})</h3>
        {!run.lengths && run.ids.length > 0 && <p class="dim">The recording does not say where the prompt's tokens end, so they are not counted per part.</p>}
        <Rows
          count={parts.length} height={24} label="Parts" selected={partAt} className="parts"
          onSelect={(at) => go({ byte: parts[at]!.begin + parts[at]!.template, token: -1 })}
          row={(at) => {
            const part = parts[at]!;
            return (
              <>
                <span class="part-name">{brief(part.name, 80)}</span>
                <span class="dim">{part.tokens === undefined ? `${count(part.end - part.begin)} B` : `${plural(part.tokens, "token")}, ${count(part.end - part.begin)} B`}</span>
              </>
            );
          }}
        />
      </aside>
    </div>
  );
}

function tokensIn(borders: readonly number[], range: { begin: number; end: number }, run: Run): string {
  const first = lastAtMost(borders, range.begin);
  const last = lastAtMost(borders, Math.max(range.begin, range.end - 1));
  const ids = run.ids.slice(first, Math.min(last + 1, first + 12));
  const isPrompt = first < run.ids.length;
  return `${plural(last - first + 1, "token")}${isPrompt ? `: ${ids.join(" ")}${last - first >= 12 ? " …" : ""}` : ""}`;
}

/// How much of the prompt's beginning two prompts share.
export function sharedWith(run: Run, other: Run): { bytes: number; tokens: number; what: string } {
  let bytes = 0;
  const most = Math.min(run.prompt.length, other.prompt.length);
  while (bytes < most && run.prompt[bytes] === other.prompt[bytes]) ++bytes;
  let tokens = 0;
  const mostTokens = Math.min(run.ids.length, other.ids.length);
  while (tokens < mostTokens && run.ids[tokens] === other.ids[tokens]) ++tokens;
  const what = run.ids.length > 0 ? `${count(tokens)} of ${plural(run.ids.length, "token")} (${percent(tokens, run.ids.length)})` : `${count(bytes)} of ${plural(run.prompt.length, "byte")} (${percent(bytes, run.prompt.length)})`;
  return { bytes, tokens, what };
}
