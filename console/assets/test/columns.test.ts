import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { decode } from "../src/core/columns.js";
import { encode, someRows } from "./helpers.js";

const names = { queues: ["default", "mail", "ü/%"], kinds: ["a", "b", "c", "d", "e"] };
const none = { queues: [], kinds: [] };

test("reads several blocks whose lengths are no multiples of eight, and names that come later", () => {
  const rows = someRows(1001);
  const samples = decode(encode([{ names: { queues: ["default", "mail"], kinds: names.kinds }, rows: rows.slice(0, 3) }, { names: { queues: ["ü/%"], kinds: [] }, rows: rows.slice(3) }], { since: 42, more: true }));
  assert.equal(samples.count, 1001);
  assert.deepEqual(samples.queues, names.queues);
  assert.deepEqual(samples.kinds, names.kinds);
  assert.equal(samples.since, 42);
  assert.equal(samples.more, true);
  rows.forEach((row, n) => {
    assert.equal(samples.finished[n], row.finished);
    assert.deepEqual(samples.wait[n], Math.fround(row.wait));
    assert.deepEqual(samples.run[n], Math.fround(row.run));
    assert.deepEqual([samples.queue[n], samples.kind[n], samples.attempt[n], samples.outcome[n]], [row.queue, row.kind, row.attempt, row.outcome]);
  });
});

test("reads nothing at all", () => {
  const samples = decode(encode([]));
  assert.equal(samples.count, 0);
  assert.equal(samples.more, false);
});

test("what was cut off anywhere is refused, and so is what is no samples", () => {
  const whole = encode([{ names, rows: someRows(100) }]);
  for (let length = 0; length < whole.byteLength; length += 8) {
    assert.throws(() => decode(whole.slice(0, length)), /cut off|no samples/, `cut at ${length} of ${whole.byteLength}`);
  }
  assert.throws(() => decode(encode([{ names, rows: someRows(5) }], null)), /cut off/);
  assert.throws(() => decode(encode([{ names, rows: someRows(5) }], { samples: 6 })), /missing/);
  assert.throws(() => decode(new TextEncoder().encode("<!doctype html><html>").buffer as ArrayBuffer), /no samples/);
  const later = encode([{ names: none, rows: [] }]);
  new DataView(later).setUint32(4, 2, true);
  assert.throws(() => decode(later), /reload/);
  const wrong = encode([{ names: none, rows: someRows(9) }]);
  new DataView(wrong).setUint32(16, 8, true); // says eight rows where there are nine
  assert.throws(() => decode(wrong), /wrong length/);
});

// Written by the server's own code; see TestSamplesFormatIsTheGoldenOne in console/samples_format_test.go.
test("reads what the server writes", () => {
  const file = readFileSync("test/samples.golden.bin");
  const samples = decode(file.buffer.slice(file.byteOffset, file.byteOffset + file.byteLength) as ArrayBuffer);
  assert.equal(samples.count, 250);
  assert.deepEqual(samples.queues, ["q0", "q1", "q2", "späte"]);
  assert.deepEqual(samples.kinds, ["k0", "k1"]);
  assert.equal(samples.more, true);
  assert.equal(samples.since, Date.UTC(2026, 0, 2, 3, 4, 5));
  for (const n of [0, 1, 2, 98, 99, 249]) {
    assert.equal(samples.finished[n], Date.UTC(2026, 0, 2, 3, 4, 5) + n + 0.25);
    assert.deepEqual(samples.wait[n], n % 10 === 0 ? NaN : Math.fround(n * 0.5));
    assert.equal(samples.run[n], Math.fround(n * 1.5));
    assert.equal(samples.queue[n], n === 249 ? 3 : n % 3);
    assert.equal(samples.kind[n], n % 2);
    assert.equal(samples.attempt[n], Math.min(n * 300, 65_535));
    assert.equal(samples.outcome[n], n % 5);
  }
});
