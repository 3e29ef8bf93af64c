// What is looked at, which the address holds: #NAME?view=timeline&run=0&token=12. So every view has a permalink.

import { useEffect, useState } from "preact/hooks";

export type View = "prompt" | "timeline" | "masks" | "waterfall" | "request";
export const kViews: readonly [View, string][] = [["prompt", "Prompt"], ["timeline", "Timeline"], ["masks", "Masks"], ["waterfall", "Waterfall"], ["request", "Request"]];

export interface Place {
  name: string; // of the recording; "": none
  view: View;
  run: number; // place in the list of runs
  token: number; // in the run; -1: none
  byte: number; // of the prompt; -1: none
  step: number; // the stream is cut behind it; -1: not cut
}

export function placeOf(hash: string): Place {
  const [name = "", query = ""] = hash.replace(/^#/, "").split("?");
  const found = new URLSearchParams(query);
  const whole = (member: string, otherwise: number) => {
    const value = found.get(member);
    return value !== null && /^\d{1,9}$/.test(value) ? Number(value) : otherwise;
  };
  const view = kViews.find(([known]) => known === found.get("view"))?.[0] ?? "timeline";
  let decoded = "";
  try {
    decoded = decodeURIComponent(name);
  } catch {
    // an address that was cut
  }
  return { name: decoded, view, run: whole("run", 0), token: whole("token", -1), byte: whole("byte", -1), step: whole("step", -1) };
}

export function hashOf(place: Place): string {
  if (place.name === "") return "#";
  const query = new URLSearchParams({ view: place.view });
  if (place.run > 0) query.set("run", String(place.run));
  for (const member of ["token", "byte", "step"] as const) if (place[member] >= 0) query.set(member, String(place[member]));
  return `#${place.name.split("/").map(encodeURIComponent).join("/")}?${query.toString()}`;
}

export type Go = (change: Partial<Place>) => void;

export function usePlace(): [Place, Go] {
  const [place, setPlace] = useState(() => placeOf(location.hash));
  useEffect(() => {
    const read = () => setPlace(placeOf(location.hash));
    window.addEventListener("hashchange", read);
    return () => window.removeEventListener("hashchange", read);
  }, []);
  const go: Go = (change) => {
    const old = placeOf(location.hash);
    const next = { ...old, ...change };
    // Another recording or picture is a step that the browser can go back; a move within one is not.
    if (next.name !== old.name || next.view !== old.view) history.pushState(null, "", hashOf(next));
    else history.replaceState(null, "", hashOf(next));
    setPlace(next);
  };
  return [place, go];
}
