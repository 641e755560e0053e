// Samples as the server would send them, made here: a second writer of the format, so that reader and writer cannot be wrong
// together (the golden file is the server's own).

export interface Row {
  finished: number;
  wait: number;
  run: number;
  queue: number;
  kind: number;
  attempt: number;
  outcome: number;
}

export interface Sent {
  names: { queues: string[]; kinds: string[] };
  rows: Row[];
}

const padded = (n: number): number => Math.ceil(n / 8) * 8;

function block(what: number, body: Uint8Array): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(8 + padded(body.length)).fill(what === 2 ? 0 : 0x20, 8);
  const view = new DataView(out.buffer);
  view.setUint32(0, what, true);
  view.setUint32(4, padded(body.length), true);
  out.set(body, 8);
  return out;
}

function rowsBlock(rows: Row[]): Uint8Array<ArrayBuffer> {
  const n = rows.length;
  const size = 8 + 8 * n + 2 * padded(4 * n) + 3 * padded(2 * n) + padded(n);
  const body = new Uint8Array(size);
  const view = new DataView(body.buffer);
  view.setUint32(0, n, true);
  let at = 8;
  rows.forEach((row, i) => view.setFloat64(at + 8 * i, row.finished, true));
  at += 8 * n;
  for (const name of ["wait", "run"] as const) {
    rows.forEach((row, i) => view.setFloat32(at + 4 * i, row[name], true));
    at += padded(4 * n);
  }
  for (const name of ["queue", "kind", "attempt"] as const) {
    rows.forEach((row, i) => view.setUint16(at + 2 * i, row[name], true));
    at += padded(2 * n);
  }
  rows.forEach((row, i) => view.setUint8(at + i, row.outcome));
  return block(2, body);
}

const text = (what: number, value: unknown): Uint8Array<ArrayBuffer> => block(what, new TextEncoder().encode(JSON.stringify(value)));

/** encode writes parts one after the other, and the end unless it is cut. */
export function encode(parts: Sent[], end: { samples?: number; since?: number; more?: boolean } | null = {}): ArrayBuffer {
  const head = new Uint8Array(8);
  head.set(new TextEncoder().encode("PGQS"));
  new DataView(head.buffer).setUint32(4, 1, true);
  const pieces = [head];
  let samples = 0;
  for (const part of parts) {
    if (part.names.queues.length + part.names.kinds.length > 0) pieces.push(text(1, part.names));
    pieces.push(rowsBlock(part.rows));
    samples += part.rows.length;
  }
  if (end !== null) pieces.push(text(3, { samples, since: 0, more: false, ...end }));
  const out = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    out.set(piece, at);
    at += piece.length;
  }
  return out.buffer;
}

/** chance is a generator of numbers in [0, 1) that is the same every time. */
export function chance(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** someRows are rows of all sorts. */
export function someRows(n: number, seed = 1): Row[] {
  const next = chance(seed);
  return Array.from({ length: n }, (_, i) => ({
    finished: 1_700_000_000_000 + Math.floor(next() * 3_600_000),
    wait: next() < 0.1 ? NaN : Math.exp(next() * 12 - 2),
    run: next() < 0.05 ? NaN : Math.exp(next() * 14 - 3),
    queue: i % 3,
    kind: Math.floor(next() * 5),
    attempt: 1 + (i % 2),
    outcome: Math.floor(next() * 5),
  }));
}
