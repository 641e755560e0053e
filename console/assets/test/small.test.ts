import assert from "node:assert/strict";
import { test } from "node:test";
import { LONGEST, PACE, wait } from "../src/core/backoff.js";
import { framesOf } from "../src/core/frames.js";
import { between, move } from "../src/core/range.js";
import { coarse, isRelative, relative } from "../src/core/relative.js";
import { PATIENCE, Sequences } from "../src/core/sequence.js";
import { clock, count, percent, span } from "../src/core/words.js";

test("a page that cannot be refreshed is asked for ever more seldom, and never less than twice a minute", () => {
  assert.equal(wait(0, 0.5), PACE);
  assert.equal(wait(1, 0), 2 * PACE);
  assert.equal(wait(2, 0), 4 * PACE);
  assert.equal(wait(1000, 0), LONGEST);
  for (let failures = 1; failures < 20; failures++) assert.ok(wait(failures, 0.999) >= wait(failures, 0) * 0.8 - 1 && wait(failures, 0.999) > PACE);
});

test("times read as the server writes them", () => {
  const now = 1e12;
  for (const [ago, words] of [[0, "just now"], [999, "just now"], [1000, "1 s ago"], [59_999, "59 s ago"], [60_000, "1 min ago"], [3_600_000, "1 h ago"], [172_799_000, "47 h ago"], [172_800_000, "2 d ago"], [-5000, "in 5 s"], [-90_000, "in 1 min"]] as const) {
    assert.equal(relative(now - ago, now), words);
    assert.ok(isRelative(words));
  }
  assert.equal(coarse(1), "0 s");
  assert.ok(!isRelative("2026-01-02 03:04:05 UTC"));
  assert.ok(!isRelative("agony"));
});

test("g and then j goes to the jobs, if it comes soon enough; j alone is the next row", () => {
  const sequences = new Sequences(new Map([["g j", "jobs"], ["j", "next"], ["?", "help"]]));
  assert.equal(sequences.press("g", 0), undefined);
  assert.equal(sequences.press("j", 100), "jobs");
  assert.equal(sequences.press("j", 200), "next");
  sequences.press("g", 1000);
  assert.equal(sequences.press("j", 1001 + PATIENCE), "next");
  sequences.press("g", 5000);
  assert.equal(sequences.press("?", 5001), "help");
  assert.equal(sequences.press("z", 5002), undefined);
});

test("a range has both of its ends, whichever was clicked first", () => {
  assert.deepEqual(between(2, 4), [2, 3, 4]);
  assert.deepEqual(between(4, 2), [2, 3, 4]);
  assert.deepEqual(between(3, 3), [3]);
});

test("steps begin at an end and stay within the rows", () => {
  assert.equal(move(-1, 1, 5), 0);
  assert.equal(move(-1, -1, 5), 4);
  assert.equal(move(4, 1, 5), 4);
  assert.equal(move(0, -1, 5), 0);
  assert.equal(move(-1, 1, 0), -1);
});

test("a frame that took as long as four has dropped three", () => {
  const calm = [16.6, 16.7, 16.7, 16.8, 40];
  assert.deepEqual(framesOf(calm, [16.7, 66.8, 17.1]), { drawn: 3, dropped: 3, longest: 66.8, period: 16.7 });
  assert.equal(framesOf([8.3, 8.3, 8.4], [16.6]).dropped, 1);
  assert.equal(framesOf([], []).dropped, 0);
});

test("numbers in words", () => {
  assert.equal(count(1234567), "1,234,567");
  for (const [ms, words] of [[0, "0 ms"], [0.05, "50 µs"], [0.9996, "1 ms"], [1, "1 ms"], [1.55, "1.6 ms"], [12.4, "12 ms"], [999.6, "1 s"], [1500, "1.5 s"], [59_999, "1 min"], [90_000, "1.5 min"], [3_600_000, "1 h"], [864e5 * 3, "3 d"], [NaN, "–"]] as const) assert.equal(span(ms), words, String(ms));
  assert.equal(percent(0.026), "2.6 %");
  assert.equal(percent(0), "0 %");
  assert.equal(percent(0.5), "50 %");
  const at = Date.UTC(2026, 0, 2, 3, 4, 5);
  const zone = process.env["TZ"];
  process.env["TZ"] = "America/St_Johns"; // a reader's own, which is another one
  assert.equal(clock(at, 60_000), "03:04:05");
  assert.equal(clock(at, 3_600_000), "03:04");
  assert.equal(clock(at, 864e5), "01-02 03:04");
  if (zone === undefined) delete process.env["TZ"];
  else process.env["TZ"] = zone;
});
