// Drawing on a canvas, by numbers that are ready: each function takes a few milliseconds. Colours are those of the style sheet.

import { SLICES, type Measure } from "../core/report.js";
import { lower, scale } from "../core/scale.js";
import { clock, count, span } from "../core/words.js";

/** Paper is where to draw, in CSS pixels, and with what. */
export interface Paper {
  context: CanvasRenderingContext2D;
  width: number;
  height: number;
  colour: (name: string) => string; // of the style sheet, such as "--muted"
  font: string;
}

/** Frame is the inside of a chart. */
interface Frame {
  left: number;
  top: number;
  width: number;
  height: number;
}

const LEFT = 52;
const BOTTOM = 22;
const TOP = 10;
const RIGHT = 10;

export function frame(paper: Paper): Frame {
  return { left: LEFT, top: TOP, width: paper.width - LEFT - RIGHT, height: paper.height - TOP - BOTTOM };
}

/** Range is the buckets that hold anything, with one to spare on both sides. */
export interface Range {
  first: number;
  last: number;
}

export function used(measure: Measure): Range {
  let first = scale.count;
  let last = -1;
  for (let n = 0; n < scale.count; n++) {
    if ((measure.good[n] as number) + (measure.bad[n] as number) === 0) continue;
    first = Math.min(first, n);
    last = n;
  }
  if (last < 0) return { first: 0, last: 40 };
  return { first: Math.max(0, Math.min(first, last - 8) - 1), last: Math.min(scale.count - 1, Math.max(last, first + 8) + 1) };
}

/** decades are the powers of ten within a range, as places of buckets. */
function decades(range: Range, most: number): number[] {
  const places: number[] = [];
  for (let n = Math.ceil(range.first / scale.perDecade) * scale.perDecade; n <= range.last + 1; n += scale.perDecade) places.push(n);
  const step = Math.max(1, Math.ceil(places.length / most));
  return places.filter((_, n) => n % step === 0);
}

function text(paper: Paper, words: string, x: number, y: number, align: CanvasTextAlign): void {
  const { context } = paper;
  context.fillStyle = paper.colour("--muted");
  context.font = paper.font;
  context.textAlign = align;
  context.textBaseline = "middle";
  context.fillText(words, x, y);
}

function rule(paper: Paper, x1: number, y1: number, x2: number, y2: number, colour: string): void {
  const { context } = paper;
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5);
  context.lineTo(Math.round(x2) + 0.5, Math.round(y2) + 0.5);
  context.stroke();
}

/** histogram draws how many attempts took how long; cursor is a bucket, or -1. */
export function histogram(paper: Paper, measure: Measure, cursor: number): void {
  const f = frame(paper);
  const range = used(measure);
  const columns = range.last - range.first + 1;
  const width = f.width / columns;
  let most = 1;
  for (let n = range.first; n <= range.last; n++) most = Math.max(most, (measure.good[n] as number) + (measure.bad[n] as number));
  for (const share of [0, 0.5, 1]) {
    const y = f.top + f.height * (1 - share);
    rule(paper, f.left, y, f.left + f.width, y, paper.colour("--line"));
    text(paper, count(most * share), f.left - 6, y, "right");
  }
  for (const place of decades(range, Math.max(2, Math.floor(f.width / 70)))) text(paper, span(lower(scale, place)), f.left + (place - range.first) * width, f.top + f.height + 13, "center");
  for (let n = range.first; n <= range.last; n++) {
    const good = ((measure.good[n] as number) / most) * f.height;
    const bad = ((measure.bad[n] as number) / most) * f.height;
    const x = f.left + (n - range.first) * width;
    paper.context.fillStyle = paper.colour("--chart-1");
    paper.context.fillRect(x + 0.5, f.top + f.height - good, Math.max(1, width - 1), good);
    paper.context.fillStyle = paper.colour("--red");
    paper.context.fillRect(x + 0.5, f.top + f.height - good - bad, Math.max(1, width - 1), bad);
    if (n === cursor) rule(paper, x + width / 2, f.top, x + width / 2, f.top + f.height, paper.colour("--text"));
  }
}

const lines = ["--chart-1", "--chart-3", "--chart-4"];

function timeAxis(paper: Paper, f: Frame, from: number, to: number): void {
  const labels = Math.max(2, Math.min(6, Math.floor(f.width / 90)));
  for (let n = 0; n < labels; n++) {
    const share = n / (labels - 1);
    text(paper, clock(from + (to - from) * share, to - from), f.left + f.width * share, f.top + f.height + 13, n === 0 ? "left" : n === labels - 1 ? "right" : "center");
  }
}

function durationAxis(paper: Paper, f: Frame, range: Range): (place: number) => number {
  const y = (place: number): number => f.top + f.height * (1 - (place - range.first) / (range.last + 1 - range.first));
  for (const place of decades(range, 6)) {
    rule(paper, f.left, y(place), f.left + f.width, y(place), paper.colour("--line"));
    text(paper, span(lower(scale, place)), f.left - 6, y(place), "right");
  }
  return y;
}

/** courses draws the percentiles over time. */
export function courses(paper: Paper, measure: Measure, from: number, to: number, cursor: number): void {
  const f = frame(paper);
  const range = used(measure);
  const y = durationAxis(paper, f, range);
  timeAxis(paper, f, from, to);
  const x = (slice: number): number => f.left + ((slice + 0.5) / SLICES) * f.width;
  const place = (ms: number): number => Math.min(range.last + 1, Math.max(range.first, Math.log10(Math.max(ms, scale.lowest) / scale.lowest) * scale.perDecade));
  measure.courses.forEach((course, n) => {
    const { context } = paper;
    context.strokeStyle = paper.colour(lines[n] ?? "--text");
    context.fillStyle = context.strokeStyle;
    context.lineWidth = 1.75;
    context.lineJoin = "round";
    context.beginPath();
    let down = false;
    course.forEach((value, slice) => {
      if (Number.isNaN(value)) {
        down = false;
        return;
      }
      if (down) context.lineTo(x(slice), y(place(value)));
      else context.moveTo(x(slice), y(place(value)));
      down = true;
      if (Number.isNaN(course[slice - 1] ?? NaN) && Number.isNaN(course[slice + 1] ?? NaN)) context.fillRect(x(slice) - 2, y(place(value)) - 2, 4, 4);
    });
    context.stroke();
  });
  if (cursor >= 0) rule(paper, x(cursor), f.top, x(cursor), f.top + f.height, paper.colour("--text"));
}

/** heat draws how many attempts ended when and had taken how long: the more, the denser. */
export function heat(paper: Paper, measure: Measure, from: number, to: number, cursor: number): void {
  const f = frame(paper);
  const range = used(measure);
  const y = durationAxis(paper, f, range);
  timeAxis(paper, f, from, to);
  const width = f.width / SLICES;
  const height = f.height / (range.last + 1 - range.first);
  const full = Math.log1p(measure.hottest);
  const colour = paper.colour("--heat");
  for (let slice = 0; slice < SLICES; slice++) {
    for (let n = range.first; n <= range.last; n++) {
      const here = measure.heat[slice * scale.count + n] as number;
      if (here === 0) continue;
      paper.context.fillStyle = `rgb(${colour} / ${(0.12 + 0.88 * (Math.log1p(here) / full)).toFixed(3)})`;
      paper.context.fillRect(f.left + slice * width, y(n + 1), Math.max(1, width - 0.5), Math.max(1, height - 0.5));
    }
  }
  if (cursor >= 0) {
    const x = f.left + (cursor + 0.5) * width;
    rule(paper, x, f.top, x, f.top + f.height, paper.colour("--text"));
  }
}
