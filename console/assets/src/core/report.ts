// From samples to what the charts show. Pure: the same function runs in the worker, on the main thread of the comparison, and in the
// tests under Node.

import { outcomes, type Samples } from "./columns.js";
import { grouped, of, quantile } from "./quantiles.js";
import { bucket, scale } from "./scale.js";

/** How many parts the time axis has. */
export const SLICES = 60;

/** The percentiles over time, in this order. */
export const shares = [0.5, 0.95, 0.99] as const;

/** Numbers sum up durations in milliseconds; those of none are NaN. */
export interface Numbers {
  known: number;
  p50: number;
  p95: number;
  p99: number;
  max: number;
}

/** Measure is everything about one of the two durations. */
export interface Measure {
  numbers: Numbers;
  good: Uint32Array; // of each bucket: succeeded, cancelled
  bad: Uint32Array; // retried, failed, dead
  courses: Float32Array[]; // of each share: a value for each slice, NaN of none
  heat: Uint32Array; // SLICES rows of scale.count buckets
  hottest: number;
}

/** Group is a line of the tables by queue and by kind. */
export interface Group {
  name: string;
  count: number;
  bad: number;
  wait: Numbers;
  run: Numbers;
}

export interface Report {
  count: number;
  from: number; // milliseconds since 1970; NaN of nothing
  to: number;
  perSlice: Uint32Array;
  byOutcome: number[]; // in the order of outcomes
  wait: Measure;
  run: Measure;
  queues: Group[]; // the largest first
  kinds: Group[];
  more: boolean;
}

/** The most lines that a table by queue or kind has. */
export const LINES = 30;

function numbersOf(sorted: Float32Array): Numbers {
  return { known: sorted.length, p50: quantile(sorted, 0.5), p95: quantile(sorted, 0.95), p99: quantile(sorted, 0.99), max: quantile(sorted, 1) };
}

/** isBad tells attempts that failed, by the number of their outcome. */
export const isBad = (outcome: number): boolean => outcome >= 1 && outcome <= 3;

/** slicesOf is the part of the time axis for each sample, with its ends. */
export function slicesOf(finished: Float64Array): { slice: Uint8Array; from: number; to: number } {
  let from = Infinity;
  let to = -Infinity;
  for (const at of finished) {
    if (at < from) from = at;
    if (at > to) to = at;
  }
  const slice = new Uint8Array(finished.length);
  if (finished.length === 0) return { slice, from: NaN, to: NaN };
  const width = (to - from) / SLICES;
  if (width > 0) {
    for (let n = 0; n < finished.length; n++) slice[n] = Math.min(SLICES - 1, Math.floor(((finished[n] as number) - from) / width));
  }
  return { slice, from, to };
}

/** measure works one duration out. */
export function measure(values: Float32Array, slice: Uint8Array, outcome: Uint8Array): Measure {
  const good = new Uint32Array(scale.count);
  const bad = new Uint32Array(scale.count);
  const heat = new Uint32Array(SLICES * scale.count);
  let known = 0;
  for (let n = 0; n < values.length; n++) {
    const value = values[n] as number;
    if (Number.isNaN(value)) continue;
    known++;
    const at = bucket(scale, value);
    const side = isBad(outcome[n] as number) ? bad : good;
    side[at] = (side[at] as number) + 1;
    const cell = (slice[n] as number) * scale.count + at;
    heat[cell] = (heat[cell] as number) + 1;
  }
  let hottest = 0;
  for (const n of heat) if (n > hottest) hottest = n;
  const groups = grouped(values, slice, SLICES);
  const courses = shares.map((share) => Float32Array.from({ length: SLICES }, (_, n) => quantile(of(groups, n), share)));
  const sorted = groups.values.slice().sort();
  return { numbers: { ...numbersOf(sorted), known }, good, bad, courses, heat, hottest };
}

/** linesBy sums up by queue or by kind: the largest groups, LINES of them. */
export function linesBy(samples: Samples, group: Uint16Array, names: string[]): Group[] {
  const waits = grouped(samples.wait, group, names.length);
  const runs = grouped(samples.run, group, names.length);
  const counts = new Uint32Array(names.length);
  const bad = new Uint32Array(names.length);
  for (let n = 0; n < samples.count; n++) {
    const at = group[n] as number;
    if (at >= names.length) continue;
    counts[at] = (counts[at] as number) + 1;
    if (isBad(samples.outcome[n] as number)) bad[at] = (bad[at] as number) + 1;
  }
  return names
    .map((name, n) => ({ name, n, count: counts[n] as number }))
    .sort((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1))
    .slice(0, LINES)
    .map(({ name, n, count }) => ({ name, count, bad: bad[n] as number, wait: numbersOf(of(waits, n)), run: numbersOf(of(runs, n)) }));
}

/** report works everything out. */
export function report(samples: Samples): Report {
  const { slice, from, to } = slicesOf(samples.finished);
  const perSlice = new Uint32Array(SLICES);
  const byOutcome: number[] = outcomes.map(() => 0);
  for (let n = 0; n < samples.count; n++) {
    const at = slice[n] as number;
    perSlice[at] = (perSlice[at] as number) + 1;
    const outcome = samples.outcome[n] as number;
    if (outcome < byOutcome.length) byOutcome[outcome] = (byOutcome[outcome] as number) + 1;
  }
  return {
    count: samples.count,
    from,
    to,
    perSlice,
    byOutcome,
    wait: measure(samples.wait, slice, samples.outcome),
    run: measure(samples.run, slice, samples.outcome),
    queues: linesBy(samples, samples.queue, samples.queues),
    kinds: linesBy(samples, samples.kind, samples.kinds),
    more: samples.more,
  };
}
