// The list of answers: what the server has recorded, newest first, with filters and a search in texts.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { entries, readOn, RequestError, type Entry } from "./api.ts";
import { brief, count, duration, plural, Rows } from "./parts.tsx";
import { outputOf, Recording } from "./recording.ts";
import { decode } from "./bytes.ts";

const kSlowUs = 10_000_000;

export interface Filter { words: string; model: string; tool: string; guarantee: string; repairs: boolean; errors: boolean; slow: boolean }
export const kNoFilter: Filter = { words: "", model: "", tool: "", guarantee: "", repairs: false, errors: false, slow: false };

/// It has no end and gets none: the server was killed, or the file was full.
export const isUnfinished = (entry: Entry): boolean => !entry.live && entry.status === undefined;
export const isFailed = (entry: Entry): boolean => entry.error !== "" || isUnfinished(entry) || (entry.status !== undefined && entry.status >= 400);

export function matches(entry: Entry, filter: Filter, found: ReadonlySet<string> | undefined): boolean {
  if (filter.model !== "" && entry.model !== filter.model) return false;
  if (filter.tool !== "" && !entry.tools.includes(filter.tool)) return false;
  if (filter.guarantee !== "" && entry.guarantee !== filter.guarantee) return false;
  if (filter.repairs && entry.repairs === 0) return false;
  if (filter.errors && !isFailed(entry)) return false;
  if (filter.slow && entry.us < kSlowUs) return false;
  if (found) return found.has(entry.name);
  if (filter.words === "") return true;
  const words = filter.words.toLowerCase();
  return [entry.name, entry.id, entry.model, entry.path, entry.error, ...entry.tools].some((field) => field.toLowerCase().includes(words));
}

/// All that is read of the list, newest first, and how to read more. It looks for new ones every three seconds while it is in sight.
export function useEntries(trouble: (error: unknown) => void, session: number) {
  const [all, setAll] = useState<Entry[]>([]);
  const [more, setMore] = useState(false);
  const [isRead, setIsRead] = useState(false);
  const busy = useRef(false);
  const merge = (fresh: readonly Entry[]) =>
    setAll((old) => {
      const byName = new Map(old.map((entry) => [entry.name, entry]));
      for (const entry of fresh) byName.set(entry.name, entry);
      return [...byName.values()].sort((a, b) => (a.name < b.name ? 1 : a.name > b.name ? -1 : 0));
    });
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    let isFirst = true;
    const look = async () => {
      if (!document.hidden) {
        try {
          const page = await entries("", stop.signal);
          merge(page.entries);
          if (isFirst) setMore(page.more);
          isFirst = false;
          setIsRead(true);
        } catch (error) {
          if (stop.signal.aborted) return;
          trouble(error);
          if (error instanceof RequestError && error.wantsKey) return; // until there is another key
        }
      }
      timer = setTimeout(look, 3000);
    };
    void look();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [session]);
  const older = async () => {
    const last = all.at(-1);
    if (!more || busy.current || !last) return;
    busy.current = true;
    try {
      const page = await entries(last.name);
      merge(page.entries);
      setMore(page.more);
    } catch (error) {
      trouble(error);
    } finally {
      busy.current = false;
    }
  };
  return { all, more, older, isRead };
}

/// Whether the words are in the request, a prompt, an output or what was sent.
export function hasWords(recording: Recording, words: string): boolean {
  const wanted = words.toLowerCase();
  const has = (source: string) => source.toLowerCase().includes(wanted);
  const inValue = (value: unknown, depth = 0): boolean => {
    if (typeof value === "string") return has(value);
    if (typeof value !== "object" || value === null || depth > 32) return false;
    return Object.values(value).some((member) => inValue(member, depth + 1));
  };
  return (
    inValue(recording.head?.request) ||
    recording.runs.some((run) => has(decode(run.prompt)) || has(decode(outputOf(run))) || run.pieces.some((piece) => has(piece.text))) ||
    recording.events.some((event) => has(event.message) || has(event.call)) ||
    recording.finishes.some((finish) => has(finish.error))
  );
}

interface ListProps {
  all: readonly Entry[];
  more: boolean;
  older: () => void;
  isRead: boolean;
  chosen: string;
  open: (name: string) => void;
}

export function AnswerList({ all, more, older, isRead, chosen, open }: ListProps) {
  const [filter, setFilter] = useState(kNoFilter);
  const [found, setFound] = useState<ReadonlySet<string>>();
  const [progress, setProgress] = useState("");
  const [cursor, setCursor] = useState("");
  const search = useRef<AbortController | null>(null);
  const set = (change: Partial<Filter>) => setFilter((old) => ({ ...old, ...change }));
  const values = (of: (entry: Entry) => string[]) => [...new Set(all.flatMap(of))].filter((value) => value !== "").sort();
  const models = useMemo(() => values((entry) => [entry.model]), [all]);
  const tools = useMemo(() => values((entry) => entry.tools), [all]);
  const guarantees = useMemo(() => values((entry) => [entry.guarantee]), [all]);
  const shown = useMemo(() => all.filter((entry) => matches(entry, filter, found)), [all, filter, found]);

  const stopSearch = () => {
    search.current?.abort();
    setFound(undefined);
    setProgress("");
  };
  // Four files at a time; each is read, searched and dropped.
  const searchTexts = async () => {
    stopSearch();
    const words = filter.words.trim();
    if (words === "") return;
    const stop = new AbortController();
    search.current = stop;
    const queue = all.filter((entry) => matches(entry, { ...filter, words: "" }, undefined));
    const hits = new Set<string>();
    let done = 0;
    setFound(new Set());
    const worker = async () => {
      for (let entry = queue.shift(); entry && !stop.signal.aborted; entry = queue.shift()) {
        const recording = new Recording();
        try {
          await readOn(entry.name, recording, stop.signal);
          if (hasWords(recording, words)) {
            hits.add(entry.name);
            setFound(new Set(hits));
          }
        } catch {
          // It went away, or the search was ended.
        }
        ++done;
        if (!stop.signal.aborted) setProgress(`${count(done)} of ${count(done + queue.length)} searched, ${count(hits.size)} found`);
      }
    };
    await Promise.all([worker(), worker(), worker(), worker()]);
  };
  const choice = (label: string, member: "model" | "tool" | "guarantee", options: readonly string[]) => (
    <label>
      {label}
      <select aria-label={label} value={filter[member]} onChange={(event) => set({ [member]: event.currentTarget.value })}>
        <option value="">all</option>
        {options.map((option) => <option key={option} value={option}>{brief(option, 60)}</option>)}
      </select>
    </label>
  );
  const box = (label: string, member: "repairs" | "errors" | "slow", title: string) => (
    <label title={title}>
      <input type="checkbox" checked={filter[member]} onChange={(event) => set({ [member]: event.currentTarget.checked })} /> {label}
    </label>
  );
  const at = shown.findIndex((entry) => entry.name === (cursor || chosen));
  return (
    <nav class="list" aria-label="Answers">
      <form class="filters" role="search" onSubmit={(event) => { event.preventDefault(); void searchTexts(); }}>
        <div class="search">
          <input
            id="search" type="search" aria-label="Search; Enter searches in texts" placeholder="Search (Enter: in texts)" value={filter.words}
            onInput={(event) => { stopSearch(); set({ words: event.currentTarget.value }); }}
          />
        </div>
        <div class="choices">
          {choice("Model", "model", models)}
          {choice("Tool", "tool", tools)}
          {choice("Guarantee", "guarantee", guarantees)}
        </div>
        <div class="boxes">
          {box("repairs", "repairs", "only answers in which something was repaired")}
          {box("errors", "errors", "only answers that failed")}
          {box("slow", "slow", "only answers that took 10 seconds or more")}
        </div>
        <p class="dim" role="status">
          {progress !== "" ? progress : `${plural(shown.length, "answer")}${shown.length < all.length ? ` of ${count(all.length)}` : ""}${more ? ", more when you scroll" : ""}`}
        </p>
      </form>
      {isRead && all.length === 0 && <p class="empty">Nothing is recorded yet. Start the server with <code>--record FOLDER</code> and ask it something.</p>}
      <Rows
        count={shown.length} height={46} label="Answers, newest first" selected={at} onNearEnd={older}
        onSelect={(index) => setCursor(shown[index]!.name)}
        onOpen={(index) => { setCursor(shown[index]!.name); open(shown[index]!.name); }}
        rowClass={(index) => (shown[index]!.name === chosen ? "open" : "")}
        row={(index) => <EntryRow entry={shown[index]!} />}
      />
    </nav>
  );
}

export const clock = (us: number): string => (us > 0 ? new Date(us / 1000).toISOString().slice(0, 19).replace("T", " ") : "");

function EntryRow({ entry }: { entry: Entry }) {
  return (
    <div class="entry">
      <div class="entry-top">
        <span class={`dot ${entry.live ? "live" : isFailed(entry) ? "bad" : entry.repairs > 0 ? "repaired" : "good"}`} aria-hidden="true" />
        <span class="entry-model">{brief(entry.model, 60)}</span>
        <time class="dim">{clock(entry.began)}</time>
      </div>
      <div class="entry-more dim">
        {entry.live ? "under way" : isUnfinished(entry) ? "never finished" : duration(entry.us)} · {plural(entry.tokens, "token")}
        {entry.calls > 0 && ` · ${plural(entry.calls, "call")}`}
        {entry.tools.length > 0 && ` (${brief(entry.tools.slice(0, 8).join(", "), 60)})`}
        {entry.guarantee !== "" && ` · ${brief(entry.guarantee, 20)}`}
        {entry.repairs > 0 && ` · ${plural(entry.repairs, "repair")}`}
        {isFailed(entry) && <span class="bad"> · {entry.error !== "" ? brief(entry.error, 80) : entry.status === undefined ? "no end" : `status ${entry.status}`}</span>}
      </div>
    </div>
  );
}
