// Offsets in recordings are in bytes of UTF-8; texts in JavaScript are not.

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export const encode = (source: string): Uint8Array => encoder.encode(source);
/// Bytes that are not whole characters become U+FFFD.
export const decode = (bytes: Uint8Array): string => decoder.decode(bytes);

export function utf8Size(source: string): number {
  let size = source.length;
  for (let at = 0; at < source.length; ++at) {
    const unit = source.charCodeAt(at);
    if (unit < 0x80) continue;
    if (unit >= 0xd800 && unit < 0xdc00 && at + 1 < source.length) {
      size += 2; // four bytes for two units
      ++at;
    } else {
      size += unit < 0x800 ? 1 : 2;
    }
  }
  return size;
}

export function fromHex(hex: string): Uint8Array {
  const bytes = new Uint8Array(hex.length >> 1);
  for (let at = 0; at < bytes.length; ++at) bytes[at] = Number.parseInt(hex.slice(2 * at, 2 * at + 2), 16) || 0;
  return bytes;
}

export function joined(pieces: readonly Uint8Array[]): Uint8Array {
  let size = 0;
  for (const piece of pieces) size += piece.length;
  const all = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

/// Where a row of a text view begins: behind each newline, and after `columns` characters at the latest. The last entry is the end.
export function rowsOf(bytes: Uint8Array, columns: number): Uint32Array {
  let starts = new Uint32Array(1024);
  let count = 1; // the first row begins at 0
  let width = 0;
  const push = (at: number) => {
    if (count === starts.length) {
      const larger = new Uint32Array(2 * count);
      larger.set(starts);
      starts = larger;
    }
    starts[count++] = at;
  };
  for (let at = 0; at < bytes.length; ++at) {
    const byte = bytes[at]!;
    if ((byte & 0xc0) === 0x80) continue; // inside a character
    if (width >= columns && byte !== 0x0a) {
      push(at);
      width = 0;
    }
    width += byte >= 0xe3 && byte < 0xf5 ? 2 : 1; // most characters from U+3000 on are wide
    if (byte === 0x0a) {
      push(at + 1);
      width = 0;
    }
  }
  if (starts[count - 1] !== bytes.length) push(bytes.length);
  else if (count === 1) push(bytes.length);
  return starts.slice(0, count);
}

/// The greatest index whose value is at most `value`, in a list that grows; 0 if there is none.
export function lastAtMost(sorted: { readonly length: number; readonly [index: number]: number }, value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low + 1 < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! <= value) low = middle;
    else high = middle;
  }
  return low;
}
