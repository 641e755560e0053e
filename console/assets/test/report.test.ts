import assert from "node:assert/strict";
import { test } from "node:test";
import { decode } from "../src/core/columns.js";
import { grouped, of, quantile } from "../src/core/quantiles.js";
import { isBad, LINES, report, SLICES } from "../src/core/report.js";
import { bucket, lower, scale } from "../src/core/scale.js";
import { buffersOf, work } from "../src/core/work.js";
import { encode, someRows, type Row } from "./helpers.js";

const names = { queues: ["default", "mail", "billing"], kinds: ["a", "b", "c", "d", "e"] };
const reportOf = (rows: Row[]) => report(decode(encode([{ names, rows }])));

/** naive is the definition, by which the fast way is judged. */
function naive(values: number[], q: number): number {
  const sorted = values.filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
  return sorted.find((value) => sorted.filter((other) => other <= value).length >= q * sorted.length) ?? NaN;
}

test("a quantile is the smallest value that enough others do not exceed", () => {
  const sorted = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
  assert.equal(quantile(sorted, 0), 1);
  assert.equal(quantile(sorted, 0.5), 5);
  assert.equal(quantile(sorted, 0.95), 10);
  assert.equal(quantile(sorted, 1), 10);
  assert.equal(quantile([7], 0.99), 7);
  assert.ok(Number.isNaN(quantile([], 0.5)));
});

test("groups are dealt out, sorted by size and not by words, without what is not known", () => {
  const groups = grouped(Float32Array.from([10, 9, NaN, 100, 1, 5]), [0, 0, 0, 0, 1, 7], 2);
  assert.deepEqual(Array.from(of(groups, 0)), [9, 10, 100]);
  assert.deepEqual(Array.from(of(groups, 1)), [1]);
});

test("every duration lies between the bounds of its bucket", () => {
  for (const ms of [0.1, 0.13, 0.2, 1, 9.99, 10, 99.999, 1000, 12_345, 86_400_000]) {
    const n = bucket(scale, ms);
    assert.ok(lower(scale, n) <= ms * (1 + 1e-6) && ms < lower(scale, n + 1) * (1 + 1e-6), `${ms} in ${n}`);
  }
  assert.equal(bucket(scale, 0), 0);
  assert.equal(bucket(scale, -5), 0);
  assert.equal(bucket(scale, 1e300), scale.count - 1);
  assert.equal(bucket(scale, Infinity), scale.count - 1);
});

test("the report counts every attempt once, and its percentiles are those of the definition", () => {
  const rows = someRows(3000);
  const made = reportOf(rows);
  assert.equal(made.count, 3000);
  assert.equal(made.perSlice.reduce((a, b) => a + b), 3000);
  assert.deepEqual(made.byOutcome, [0, 1, 2, 3, 4].map((outcome) => rows.filter((row) => row.outcome === outcome).length));
  for (const side of ["wait", "run"] as const) {
    const values = rows.map((row) => Math.fround(row[side]));
    const known = values.filter((value) => !Number.isNaN(value)).length;
    const measure = made[side];
    assert.equal(measure.numbers.known, known);
    assert.equal(measure.good.reduce((a, b) => a + b) + measure.bad.reduce((a, b) => a + b), known);
    assert.equal(measure.bad.reduce((a, b) => a + b), rows.filter((row) => isBad(row.outcome) && !Number.isNaN(row[side])).length);
    assert.equal(measure.heat.reduce((a, b) => a + b), known);
    assert.equal(measure.hottest, Math.max(...measure.heat));
    assert.equal(measure.numbers.p50, naive(values, 0.5));
    assert.equal(measure.numbers.p95, naive(values, 0.95));
    assert.equal(measure.numbers.p99, naive(values, 0.99));
    assert.equal(measure.numbers.max, naive(values, 1));
  }
});

test("the percentiles over time are those of each slice alone", () => {
  const rows = someRows(4000, 7);
  const made = reportOf(rows);
  const width = (made.to - made.from) / SLICES;
  for (const slice of [0, 17, SLICES - 1]) {
    const inside = rows.filter((row) => Math.min(SLICES - 1, Math.floor((row.finished - made.from) / width)) === slice);
    assert.ok(inside.length > 0);
    assert.equal(made.perSlice[slice], inside.length);
    [0.5, 0.95, 0.99].forEach((share, n) => assert.equal(made.run.courses[n]?.[slice], naive(inside.map((row) => Math.fround(row.run)), share)));
  }
});

test("by queue and kind, the largest first, and names beyond the dictionary are left out", () => {
  const rows = someRows(300);
  for (const row of rows.slice(0, 50)) row.queue = 1;
  for (const row of rows.slice(290)) row.queue = 65_535;
  const made = reportOf(rows);
  assert.deepEqual(made.queues.map((one) => one.name)[0], "mail");
  for (const one of made.queues) {
    const inside = rows.filter((row) => row.queue === names.queues.indexOf(one.name));
    assert.equal(one.count, inside.length);
    assert.equal(one.bad, inside.filter((row) => isBad(row.outcome)).length);
    assert.equal(one.run.p95, naive(inside.map((row) => Math.fround(row.run)), 0.95));
  }
  const many = { queues: Array.from({ length: 200 }, (_, n) => `q${n}`), kinds: ["a"] };
  const crowded = report(decode(encode([{ names: many, rows: rows.map((row, n) => ({ ...row, kind: 0, queue: n % 200 })) }])));
  assert.equal(crowded.queues.length, LINES);
});

test("nothing, one attempt, and attempts of one instant make a report too", () => {
  const empty = report(decode(encode([])));
  assert.equal(empty.count, 0);
  assert.ok(Number.isNaN(empty.run.numbers.p50));
  const one = someRows(1)[0] as Row;
  assert.equal(reportOf([one]).perSlice[0], 1);
  const same = reportOf(someRows(50).map((row) => ({ ...row, finished: 1e12 })));
  assert.equal(same.perSlice[0], 50);
  assert.equal(same.from, same.to);
});

test("a task gives the same again, and its buffers can be handed back, each once", () => {
  const bytes = encode([{ names, rows: someRows(500) }]);
  const parts = [0, 1000, 1001, 5008].map((from, n, all) => bytes.slice(from, all[n + 1]));
  const first = work({ what: "samples", parts }, () => 0);
  const second = work({ what: "samples", parts: [bytes] }, () => 0);
  assert.deepEqual(first, second);
  const buffers = buffersOf(first);
  assert.equal(new Set(buffers).size, buffers.length);
  assert.doesNotThrow(() => structuredClone(first, { transfer: buffers }));
});

