// The samples of /api/samples, as samples_format.go writes them: blocks of columns, little-endian. Pure.

/** The outcomes by their numbers. */
export const outcomes = ["succeeded", "retried", "failed", "dead", "cancelled"] as const;

/** Samples are columns of equal length. Times are in milliseconds; NaN is not known. */
export interface Samples {
  count: number;
  finished: Float64Array;
  wait: Float32Array;
  run: Float32Array;
  queue: Uint16Array;
  kind: Uint16Array;
  attempt: Uint16Array;
  outcome: Uint8Array;
  queues: string[];
  kinds: string[];
  since: number; // 0: all that is kept
  more: boolean;
}

const MAGIC = 0x53514750; // "PGQS"
const VERSION = 1;
const NAMES = 1;
const ROWS = 2;
const END = 3;

interface Block {
  what: number;
  at: number;
  length: number;
}

/** padded is the next multiple of eight. */
const padded = (bytes: number): number => Math.ceil(bytes / 8) * 8;

/** blockBytes is how long the body of a block of n rows is. */
export const blockBytes = (n: number): number => 8 + 8 * n + 2 * padded(4 * n) + 3 * padded(2 * n) + padded(n);

function blocks(view: DataView): Block[] {
  if (view.byteLength < 8 || view.getUint32(0, true) !== MAGIC) throw new Error("these are no samples");
  const version = view.getUint32(4, true);
  if (version !== VERSION) throw new Error(`samples of version ${version}: reload the page`);
  const found: Block[] = [];
  let at = 8;
  while (at < view.byteLength) {
    if (at + 8 > view.byteLength) throw new Error("the samples are cut off");
    const block = { what: view.getUint32(at, true), length: view.getUint32(at + 4, true), at: at + 8 };
    if (block.length % 8 !== 0 || block.at + block.length > view.byteLength) throw new Error("the samples are cut off");
    found.push(block);
    at = block.at + block.length;
  }
  if (found.at(-1)?.what !== END) throw new Error("the samples are cut off");
  return found;
}

/** decode reads a whole answer. It throws where that is none, or was cut off. */
export function decode(buffer: ArrayBuffer): Samples {
  const view = new DataView(buffer);
  const all = blocks(view);
  let count = 0;
  for (const block of all) {
    if (block.what !== ROWS) continue;
    const n = view.getUint32(block.at, true);
    if (block.length !== blockBytes(n)) throw new Error("a block of samples has the wrong length");
    count += n;
  }
  const samples: Samples = {
    count,
    finished: new Float64Array(count),
    wait: new Float32Array(count),
    run: new Float32Array(count),
    queue: new Uint16Array(count),
    kind: new Uint16Array(count),
    attempt: new Uint16Array(count),
    outcome: new Uint8Array(count),
    queues: [],
    kinds: [],
    since: 0,
    more: false,
  };
  const text = new TextDecoder();
  const json = (block: Block): unknown => JSON.parse(text.decode(new Uint8Array(buffer, block.at, block.length)));
  let from = 0;
  for (const block of all) {
    if (block.what === NAMES) {
      const names = json(block) as { queues: string[] | null; kinds: string[] | null };
      samples.queues.push(...(names.queues ?? []));
      samples.kinds.push(...(names.kinds ?? []));
    } else if (block.what === ROWS) {
      from += copyRows(buffer, block, view.getUint32(block.at, true), from, samples);
    } else if (block.what === END) {
      const end = json(block) as { samples: number; since: number; more: boolean };
      if (end.samples !== count) throw new Error("some samples are missing");
      samples.since = end.since;
      samples.more = end.more;
    }
  }
  return samples;
}

function copyRows(buffer: ArrayBuffer, block: Block, n: number, from: number, to: Samples): number {
  let at = block.at + 8;
  to.finished.set(new Float64Array(buffer, at, n), from);
  at += 8 * n;
  for (const column of [to.wait, to.run]) {
    column.set(new Float32Array(buffer, at, n), from);
    at += padded(4 * n);
  }
  for (const column of [to.queue, to.kind, to.attempt]) {
    column.set(new Uint16Array(buffer, at, n), from);
    at += padded(2 * n);
  }
  to.outcome.set(new Uint8Array(buffer, at, n), from);
  return n;
}
