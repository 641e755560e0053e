import assert from "node:assert/strict";
import { test } from "node:test";
import { luminanceOf, picture } from "../src/core/picture.js";
import { chance } from "./helpers.js";

function pixels(parts: [number, number[]][]): Uint8ClampedArray {
  return Uint8ClampedArray.from(parts.flatMap(([n, rgba]) => Array.from({ length: n }, () => rgba).flat()));
}

test("luminance is that of light, not of numbers", () => {
  assert.equal(luminanceOf(pixels([[4, [255, 255, 255, 255]]])).luminance.toFixed(6), "1.000000");
  assert.equal(luminanceOf(pixels([[4, [0, 0, 0, 255]]])).luminance, 0);
  assert.equal(luminanceOf(pixels([[4, [128, 128, 128, 255]]])).luminance.toFixed(3), "0.216");
  assert.equal(luminanceOf(pixels([[1, [0, 255, 0, 255]]])).luminance.toFixed(4), "0.7152");
  assert.equal(luminanceOf(pixels([[1, [255, 255, 255, 255]], [1, [0, 0, 0, 255]]])).luminance.toFixed(3), "0.500");
});

test("transparent pixels have no colour", () => {
  const found = picture(pixels([[10, [255, 0, 0, 0]], [5, [0, 0, 255, 255]]]));
  assert.equal(found.pixels, 5);
  assert.deepEqual(found.colours, [{ red: 0, green: 0, blue: 255, share: 1 }]);
});

test("flat colours are found exactly, with their shares, the largest first", () => {
  const found = picture(pixels([[60, [200, 30, 30, 255]], [30, [20, 20, 200, 255]], [10, [240, 240, 240, 255]]]));
  assert.deepEqual(found.colours, [
    { red: 200, green: 30, blue: 30, share: 0.6 },
    { red: 20, green: 20, blue: 200, share: 0.3 },
    { red: 240, green: 240, blue: 240, share: 0.1 },
  ]);
});

test("noise around two colours gives these two the most, and twice the same", () => {
  const next = chance(5);
  const around = (value: number): number => value + Math.round((next() - 0.5) * 16);
  const parts = Array.from({ length: 4000 }, (_, n): [number, number[]] => [1, n % 4 === 0 ? [around(230), around(200), around(40), 255] : [around(30), around(90), around(60), 255]]);
  const data = pixels(parts);
  const found = picture(data);
  const green = found.colours.filter((colour) => colour.red < 60).reduce((sum, colour) => sum + colour.share, 0);
  assert.equal(green.toFixed(3), "0.750");
  assert.deepEqual(picture(data), found);
});

test("nothing is no picture", () => {
  const found = picture(new Uint8ClampedArray(0));
  assert.equal(found.pixels, 0);
  assert.deepEqual(found.colours, []);
});
