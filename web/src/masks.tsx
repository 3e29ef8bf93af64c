// Masks: for each token how many of the vocabulary were legal, and with recorded candidates what the mask took away.

import { useMemo } from "preact/hooks";
import { parametersOf, placeIn, schemaAt } from "./json_path.ts";
import { brief, count, percent, plural, Rows, visible } from "./parts.tsx";
import type { Recording, Run, Token } from "./recording.ts";
import type { Go, Place } from "./place.ts";
import { stepBehind } from "./timeline.tsx";

interface Props { recording: Recording; run: Run; place: Place; go: Go }

export function Masks({ recording, run, place, go }: Props) {
  const tokens = run.tokens;
  const version = tokens.length;
  const facts = useMemo(() => factsOf(tokens), [run, version]);
  const token = tokens[place.token >= 0 ? place.token : 0];
  if (!token) return <p class="empty">This run made no tokens, so there are no masks.</p>;
  return (
    <div class="masks">
      <ul class="facts">
        <li>{plural(facts.masked, "token")} of {count(tokens.length)} under a mask</li>
        {facts.masked > 0 && <li>{count(facts.forced)} forced ({percent(facts.forced, facts.masked)}), the longest run {count(facts.longest)}</li>}
        {facts.masked > 0 && <li>fewest legal {count(facts.least)}, most {count(facts.most)}</li>}
        {!facts.hasTop && <li class="dim">With <code>record_logprobs</code> there are the likeliest tokens before each mask.</li>}
      </ul>
      {facts.masked === 0 && <p class="dim">No mask held in this run: nothing constrained it, or the engine takes no masks.</p>}
      <div class="split">
        <Rows
          count={tokens.length} height={24} label="Tokens and how many were legal" className="main mono" selected={token.index}
          onSelect={(at) => go({ token: at, step: stepBehind(recording.steps, tokens[at]!) })}
          row={(at) => <MaskRow token={tokens[at]!} most={facts.most} />}
        />
        <aside aria-label="The mask of the selected token"><MaskOf token={token} recording={recording} /></aside>
      </div>
    </div>
  );
}

function factsOf(tokens: readonly Token[]) {
  let masked = 0, forced = 0, longest = 0, current = 0, least = Infinity, most = 0, hasTop = false;
  for (const token of tokens) {
    hasTop ||= token.top !== undefined;
    current = token.legal === 1 ? current + 1 : 0;
    longest = Math.max(longest, current);
    if (token.legal === undefined) continue;
    ++masked;
    if (token.legal === 1) ++forced;
    least = Math.min(least, token.legal);
    most = Math.max(most, token.legal);
  }
  return { masked, forced, longest, least, most, hasTop };
}

function MaskRow({ token, most }: { token: Token; most: number }) {
  // On a scale of logarithms: from 1, forced, to the widest mask of the run.
  const share = token.legal === undefined ? 0 : most > 1 ? (100 * Math.log(Math.max(1, token.legal))) / Math.log(most) : 0;
  return (
    <>
      <span class="num index">{token.index}</span>
      <span class={`seg output ${token.state}`}>{brief(token.text, 40) || " "}</span>
      <span class="legal num">{token.legal === undefined ? "no mask" : token.legal === 1 ? "forced" : `${count(token.legal)} legal`}</span>
      <svg class="legal-bar" width="120" height="10" aria-hidden="true"><rect x="0" y="0" width={Math.max(token.legal === undefined ? 0 : 2, 1.2 * share)} height="10" /></svg>
      {token.logprob !== undefined && <span class="num dim"> {percent(Math.exp(token.logprob), 1)}</span>}
      {token.top && token.top.some((row) => !row.legal) && <span class="dim"> {token.top.filter((row) => !row.legal).length} taken away</span>}
    </>
  );
}

function MaskOf({ token, recording }: { token: Token; recording: Recording }) {
  const top = token.top ?? [];
  const left = top.filter((row) => row.legal).reduce((sum, row) => sum + Math.exp(row.logprob), 0);
  const widest = Math.max(1e-12, ...top.map((row) => Math.exp(row.logprob)));
  return (
    <>
      <h3>Token {token.index}: <code>{brief(token.text, 60) || "no text"}</code></h3>
      <p>
        {token.legal === undefined ? "No mask held here." : token.legal === 1 ? "One token was legal, so the grammar forced it and the model did not choose." : `${plural(token.legal, "token")} of the vocabulary were legal.`}
      </p>
      <Where token={token} recording={recording} />
      {top.length > 0 && (
        <table class="candidates">
          <caption>The likeliest tokens before the mask</caption>
          <thead><tr><th scope="col">token</th><th scope="col">before</th><th scope="col">after</th><th scope="col">logprob</th></tr></thead>
          <tbody>
            {top.map((row, at) => (
              <tr key={at} class={`${row.legal ? "" : "taken"} ${row.text === token.text && row.legal ? "chosen" : ""}`}>
                <td>
                  {row.legal ? <code>{shown(row.text)}</code> : <><del><code>{shown(row.text)}</code></del><span class="sr"> taken away by the mask</span></>}
                </td>
                <td class="num">
                  <svg width="60" height="8" aria-hidden="true"><rect x="0" y="0" width={(60 * Math.exp(row.logprob)) / widest} height="8" /></svg> {percent(Math.exp(row.logprob), 1) || "0 %"}
                </td>
                <td class="num">{row.legal ? percent(Math.exp(row.logprob), left) : "–"}</td>
                <td class="num">{Number.isFinite(row.logprob) ? row.logprob.toFixed(3) : "−∞"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {top.length > 0 && <p class="dim">“After” is the share among the legal ones of these.</p>}
    </>
  );
}

const shown = (text: string) => visible(text).replaceAll("\n", "↵") || "empty";

/// Where the grammar stands: the call that is open, and the place in its arguments.
function Where({ token, recording }: { token: Token; recording: Recording }) {
  const place = useMemo(() => grammarPlace(token, recording), [token]);
  if (!place) return null;
  return (
    <section>
      <h4>Where the grammar stands</h4>
      <dl>
        <dt>call</dt><dd><code>{brief(place.call, 100)}</code></dd>
        <dt>in</dt><dd>{place.path.length > 0 ? <code>/{brief(place.path.join("/"), 200)}</code> : "the arguments"}, {place.within}</dd>
        {place.schemaPath && <><dt>schema</dt><dd><code>{brief(place.schemaPath, 200)}</code></dd></>}
      </dl>
      {place.schema && <pre class="text" aria-label="The schema at this place">{visible(place.schema)}</pre>}
      <p class="dim">A token that this schema does not go on with is not legal.</p>
    </section>
  );
}

export function grammarPlace(token: Token, recording: Recording) {
  // The events before this token tell which call is open, and what of its arguments is written.
  let call: { name: string; written: string } | undefined;
  for (const event of token.run.events) {
    if (event.step > token.step) break;
    if (event.name === "call_begin") call = { name: event.call, written: "" };
    else if (event.name === "call_arguments" && call && call.written.length < 1 << 20) call.written += event.text;
    else if (event.name === "call_end") call = undefined;
  }
  if (!call) return undefined;
  const { path, within } = placeIn(call.written);
  const parameters = parametersOf(recording.request, call.name);
  if (!parameters) return { call: call.name, path, within, schemaPath: "", schema: "" };
  const { schemaPath, schema } = schemaAt(parameters, path);
  return { call: call.name, path, within, schemaPath, schema: JSON.stringify(schema, null, 1).slice(0, 4000) };
}
