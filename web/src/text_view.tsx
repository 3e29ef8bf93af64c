// A long text of coloured segments in rows of one height, drawn as far as it is in sight. Offsets are bytes.

import { useMemo } from "preact/hooks";
import { decode, lastAtMost, rowsOf } from "./bytes.ts";
import { Rows, useSize, visible } from "./parts.tsx";

export interface Segment { begin: number; end: number; kind: string; title?: string }

interface TextViewProps {
  bytes: Uint8Array;
  segments: readonly Segment[]; // cover the bytes without gaps
  borders?: readonly number[] | undefined; // where tokens begin
  selection?: { begin: number; end: number } | undefined;
  onPick?: (byte: number) => void;
  dimFrom?: number; // what lies behind is not there yet
  markAt?: number | undefined; // a line is drawn before this byte
  label: string;
}

const kRowHeight = 20;
const kColumnWidth = 7.9;

export function TextView({ bytes, segments, borders, selection, onPick, dimFrom = Infinity, markAt, label }: TextViewProps) {
  const { ref, size } = useSize<HTMLDivElement>();
  const columns = Math.max(20, Math.floor((size.width - 100) / kColumnWidth));
  const starts = useMemo(() => rowsOf(bytes, columns), [bytes, columns]);
  const begins = useMemo(() => segments.map((segment) => segment.begin), [segments]);
  const selectedRow = selection ? lastAtMost(starts, selection.begin) : -1;

  const row = (at: number) => {
    const from = starts[at]!;
    const to = starts[at + 1]!;
    const pieces = [];
    let segment = lastAtMost(begins, from);
    let border = borders ? lastAtMost(borders, from) : 0;
    for (let byte = from; byte < to;) {
      while (segment + 1 < segments.length && segments[segment + 1]!.begin <= byte) ++segment;
      const current = segments[segment];
      let end = Math.min(to, current?.end ?? to);
      if (end <= byte) end = to;
      let isStart = current?.begin === byte;
      if (borders) {
        while (border + 1 < borders.length && borders[border + 1]! <= byte) ++border;
        const next = borders[border + 1];
        if (next !== undefined && next < end) end = next;
        if (borders[border] === byte) isStart = true;
      }
      if (selection) {
        if (byte < selection.begin && selection.begin < end) end = selection.begin;
        if (byte < selection.end && selection.end < end) end = selection.end;
      }
      if (byte < dimFrom && dimFrom < end) end = dimFrom;
      if (markAt !== undefined && byte < markAt && markAt < end) end = markAt;
      const isSelected = selection !== undefined && byte >= selection.begin && byte < selection.end;
      const classes = ["seg", current?.kind ?? "template"];
      if (borders && isStart) classes.push("border");
      if (isSelected) classes.push("picked");
      if (byte >= dimFrom) classes.push("later");
      if (markAt === byte && byte > 0) classes.push("mark");
      const place = byte;
      pieces.push(
        <span key={byte} class={classes.join(" ")} title={current?.title} onClick={onPick ? () => onPick(place) : undefined}>
          {visible(decode(bytes.subarray(byte, end))).replaceAll("\n", "↵")}
        </span>,
      );
      byte = end;
    }
    return (
      <>
        <span class="offset" aria-hidden="true">{from}</span>
        {pieces}
      </>
    );
  };
  return (
    <div ref={ref} class="text-view">
      <Rows count={starts.length - 1} height={kRowHeight} row={row} label={label} selected={selectedRow} role="document" className="mono" />
    </div>
  );
}
