// Which recordings belong to one conversation: those of one model of which one's messages continue the other's. Only the beginnings
// of files are read, and of few files.

import { headOf, type Entry } from "./api.ts";
import { list, text, type Json, type JsonObject } from "./json.ts";
import type { Recording, Run } from "./recording.ts";

export interface Neighbour { name: string; run: Run; entry: Entry }
export interface Neighbours { before?: Neighbour; after?: Neighbour; all: Entry[] }

const kMostHeads = 40;

const turnsOf = (request: JsonObject): Json[] => (Array.isArray(request["messages"]) ? request["messages"] : list(request["input"]));

/// Whether the messages of `longer` go on from those of `shorter`. The answers between are compared by their number alone, because
/// clients write them anew.
export function continues(longer: JsonObject, shorter: JsonObject): boolean {
  const conversation = (request: JsonObject) => text(request["conversation"]) || text(request["previous_response_id"]);
  if (conversation(longer) !== "" && conversation(longer) === conversation(shorter)) return true;
  const long = turnsOf(longer);
  const short = turnsOf(shorter);
  if (short.length === 0 || long.length <= short.length) return false;
  return short.every((turn, at) => JSON.stringify(turn) === JSON.stringify(long[at]));
}

/// Calls `show` with what is found so far.
export async function neighboursOf(name: string, recording: Recording, all: readonly Entry[], signal: AbortSignal, show: (found: Neighbours) => void): Promise<void> {
  const request = recording.head?.request ?? {};
  const at = all.findIndex((entry) => entry.name === name);
  const found: Neighbours = { all: at >= 0 ? [all[at]!] : [] };
  if (at < 0) return;
  const model = recording.head?.model ?? "";
  // From the nearest to the farthest, on both sides; the list has the newest first.
  const look = async (candidates: readonly Entry[], isBefore: boolean) => {
    let nearest = request;
    for (const entry of candidates.filter((each) => each.model === model).slice(0, kMostHeads)) {
      const head = await headOf(entry.name, signal);
      const other = head.head?.request ?? {};
      if (!(isBefore ? continues(nearest, other) : continues(other, nearest))) continue;
      nearest = other;
      found.all.push(entry);
      const run = head.runs[0];
      if (!run) continue;
      if (isBefore) found.before ??= { name: entry.name, run, entry };
      else found.after ??= { name: entry.name, run, entry };
      show({ ...found, all: found.all.toSorted((a, b) => a.began - b.began) });
    }
  };
  await look(all.slice(at + 1), true);
  await look(all.slice(0, at).reverse(), false);
}
