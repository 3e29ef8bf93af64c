// What the pages are put together from: lists that draw only what is in sight, texts that cannot harm, buttons that copy.
//
// All texts are hostile. They reach the page as text of elements only, never as markup, and characters that would not be seen, or
// would turn others around, are shown by their names.

import type { ComponentChildren, TargetedKeyboardEvent } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

const kUnseen = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/// The text with signs for what would not be seen; newlines stay.
export function visible(source: string): string {
  return source.replace(kUnseen, (c) => {
    const code = c.charCodeAt(0);
    if (code === 9) return "→\t";
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    if (code === 0x7f) return "␡";
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}
export const visibleLine = (source: string): string => visible(source).replaceAll("\n", "↵");

/// A short piece of a text on one line.
export function brief(source: string, most = 200): string {
  const line = visibleLine(source.slice(0, most));
  return source.length > most ? `${line}…` : line;
}

const kShown = 20_000;

/// A text of any length: of a long one the two ends, and a button for more.
export function Text({ source, label }: { source: string; label: string }) {
  const [most, setMost] = useState(kShown);
  if (source.length <= most) return <pre class="text" aria-label={label}>{visible(source)}</pre>;
  const half = most >> 1;
  return (
    <div>
      <pre class="text" aria-label={`${label}, beginning`}>{visible(source.slice(0, half))}</pre>
      <button onClick={() => setMost(Math.min(most * 4, 2_000_000))} disabled={most >= 2_000_000}>
        {(source.length - most).toLocaleString("en")} characters are left out here
      </button>
      <pre class="text" aria-label={`${label}, end`}>{visible(source.slice(-half))}</pre>
    </div>
  );
}

export function duration(us: number): string {
  if (us < 1000) return `${Math.round(us)} µs`;
  if (us < 1_000_000) return `${(us / 1000).toFixed(us < 10_000 ? 1 : 0)} ms`;
  if (us < 120_000_000) return `${(us / 1_000_000).toFixed(2)} s`;
  return `${Math.floor(us / 60_000_000)} min ${Math.round((us % 60_000_000) / 1_000_000)} s`;
}
export const count = (value: number): string => value.toLocaleString("en");
export const plural = (value: number, word: string): string => `${count(value)} ${word}${value === 1 ? "" : "s"}`;
export const percent = (part: number, whole: number): string => (whole > 0 ? `${((100 * part) / whole).toFixed(part < whole / 100 ? 2 : 0)} %` : "");

export function CopyButton({ label, make }: { label: string; make: () => string }) {
  const [said, setSaid] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(make());
      setSaid("copied");
    } catch {
      setSaid("the browser does not allow it");
    }
    setTimeout(() => setSaid(""), 2000);
  };
  return (
    <button onClick={copy}>
      {label}
      <span role="status" class="said">{said && ` (${said})`}</span>
    </button>
  );
}

/// The width and height of an element, as it changes.
export function useSize<T extends HTMLElement>() {
  const ref = useRef<T>(null);
  const [size, setSize] = useState({ width: 800, height: 400 });
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return;
    const read = () => setSize((old) => (old.width === element.clientWidth && old.height === element.clientHeight ? old : { width: element.clientWidth, height: element.clientHeight }));
    read();
    const observer = new ResizeObserver(read);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return { ref, size };
}

const kMostHeight = 8_000_000; // browsers draw no element that is much higher than this

interface RowsProps {
  count: number;
  height: number; // of each row, in pixels
  row: (index: number) => ComponentChildren;
  label: string;
  selected?: number; // is kept in sight when it changes
  onSelect?: (index: number) => void; // arrows, Home, End, Page Up, Page Down and clicks
  onOpen?: (index: number) => void; // Enter
  onNearEnd?: () => void;
  onRange?: (first: number, last: number) => void; // what is in sight
  className?: string;
  role?: "listbox" | "document";
  rowClass?: (index: number) => string;
}

/// A list of rows of one height, of which only those in sight are elements. With `onSelect` it is a list box that keys work in.
export function Rows({ count: total, height, row, label, selected = -1, onSelect, onOpen, onNearEnd, onRange, className = "", role = "listbox", rowClass }: RowsProps) {
  const { ref, size } = useSize<HTMLDivElement>();
  const [top, setTop] = useState(0);
  const id = useMemo(() => `rows-${Math.random().toString(36).slice(2)}`, []);
  const whole = total * height;
  const spacer = Math.min(whole, kMostHeight);
  // Where rows do not fit into the highest element, its scroll position stands for a part of the whole.
  const stretch = spacer < whole ? (whole - size.height) / Math.max(1, spacer - size.height) : 1;
  const firstPixel = top * stretch;
  const first = Math.max(0, Math.min(total - 1, Math.floor(firstPixel / height) - 8));
  const last = Math.min(total, Math.ceil((firstPixel + size.height) / height) + 8);

  useLayoutEffect(() => {
    const element = ref.current;
    if (!element || selected < 0 || selected >= total) return;
    const from = element.scrollTop * stretch;
    const begin = selected * height;
    if (begin < from) element.scrollTop = begin / stretch;
    else if (begin + height > from + element.clientHeight) element.scrollTop = (begin + 2 * height - element.clientHeight) / stretch;
  }, [selected, total, stretch]);
  useEffect(() => {
    if (onNearEnd && last >= total - 10) onNearEnd();
  }, [last, total]);
  useEffect(() => onRange?.(first, last), [first, last]);

  const onKeyDown = (event: TargetedKeyboardEvent<HTMLDivElement>) => {
    if (!onSelect || total === 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(size.height / height) - 1);
    const steps = new Map([["ArrowDown", 1], ["j", 1], ["ArrowUp", -1], ["k", -1], ["PageDown", page], ["PageUp", -page], ["Home", -total], ["End", total]]);
    const step = steps.get(event.key);
    if (step !== undefined) onSelect(Math.max(0, Math.min(total - 1, (selected < 0 && step > 0 ? -1 : selected) + step)));
    else if (event.key === "Enter" && onOpen && selected >= 0) onOpen(selected);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const isBox = role === "listbox";
  const rows: ComponentChildren[] = [];
  for (let at = first; at < last; ++at) {
    const isSelected = at === selected;
    rows.push(
      <div
        key={at}
        id={`${id}-${at}`}
        class={`row ${isSelected ? "selected" : ""} ${rowClass?.(at) ?? ""}`}
        role={isBox ? "option" : undefined}
        aria-selected={isBox ? isSelected : undefined}
        aria-posinset={isBox ? at + 1 : undefined}
        aria-setsize={isBox ? total : undefined}
        style={{ height: `${height}px`, lineHeight: `${height}px` }}
        onClick={isBox && onSelect ? () => { onSelect(at); onOpen?.(at); } : undefined}
      >
        {row(at)}
      </div>,
    );
  }
  return (
    <div
      ref={ref}
      class={`rows ${className}`}
      role={isBox ? "listbox" : "region"}
      aria-label={label}
      tabIndex={0}
      aria-activedescendant={isBox && selected >= first && selected < last ? `${id}-${selected}` : undefined}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      onKeyDown={onKeyDown}
    >
      <div class="spacer" style={{ height: `${spacer}px` }}>
        <div class="window" style={{ transform: `translateY(${spacer < whole ? top + first * height - firstPixel : first * height}px)` }}>{rows}</div>
      </div>
    </div>
  );
}

export function Tabs<T extends string>({ tabs, chosen, choose, label }: { tabs: readonly [T, string][]; chosen: T; choose: (tab: T) => void; label: string }) {
  const move = (event: TargetedKeyboardEvent<HTMLDivElement>) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    const at = (tabs.findIndex(([name]) => name === chosen) + step + tabs.length) % tabs.length;
    choose(tabs[at]![0]);
    event.preventDefault();
    event.stopPropagation();
    (event.currentTarget.children[at] as HTMLElement).focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
      {tabs.map(([name, title]) => (
        <button key={name} id={`tab-${name}`} role="tab" aria-selected={name === chosen} aria-controls="picture" tabIndex={name === chosen ? 0 : -1} onClick={() => choose(name)}>
          {title}
        </button>
      ))}
    </div>
  );
}

/// Asks for the server's key.
export function KeyForm({ message, take }: { message: string; take: (key: string) => void }) {
  const [value, setValue] = useState("");
  return (
    <form class="key" onSubmit={(event) => { event.preventDefault(); take(value.trim()); }}>
      <p role="alert">{message}</p>
      <label>
        API key <input type="password" autocomplete="off" value={value} onInput={(event) => setValue(event.currentTarget.value)} />
      </label>
      <button type="submit">Use it</button>
      <p class="dim">It stays in this tab until the tab is closed.</p>
    </form>
  );
}
