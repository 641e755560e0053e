// The page "Three things called worker": what this tab's workers do, and the same work on the main thread and beside it.
// What was measured stands in data attributes of the section #comparison, and in the event pgqueue:compared, for tests.

import type { Frames } from "./core/frames.js";
import { sizeOf, work, type Result, type Task } from "./core/work.js";
import { count, percent, span } from "./core/words.js";
import { make } from "./ui/chart.js";
import { Pulse } from "./ui/pulse.js";
import { fetchParts, Workbench } from "./ui/workbench.js";

const svg = "http://www.w3.org/2000/svg";
const MOST_PIXELS = 1_500_000;

interface Outcome {
  side: "main" | "worker";
  result: Result;
  total: number;
  frames: Frames;
  gaps: number[];
  left: number; // bytes of the buffer that the page still has
  size: number;
}

/** comparable is a result without its time: both sides must have found the same. */
function comparable(result: Result): string {
  return JSON.stringify(result.what === "samples" ? result.report : result.picture, (_, value: unknown) => (ArrayBuffer.isView(value) ? Array.from(value as unknown as ArrayLike<number>, String) : value));
}

class Comparison {
  private readonly bench = new Workbench();
  private runs = 0;
  private busy = false;

  constructor(
    private readonly section: HTMLElement,
    private readonly status: HTMLElement,
    private readonly button: HTMLButtonElement,
    private readonly what: HTMLSelectElement,
    private readonly file: HTMLInputElement,
    private readonly place: HTMLElement,
    private readonly found: HTMLElement,
    private readonly dot: Element,
  ) {}

  start(): void {
    this.section.hidden = false;
    const choose = (): void => {
      const label = document.getElementById("picture-label");
      if (label !== null) label.hidden = this.what.value !== "picture";
    };
    this.what.addEventListener("change", choose);
    choose();
    this.button.addEventListener("click", () => void this.run());
  }

  private say(state: string, text: string): void {
    this.section.dataset["state"] = state;
    this.status.textContent = text;
  }

  private async run(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    this.button.disabled = true;
    this.found.replaceChildren();
    this.place.replaceChildren();
    tell("computing", "busy now");
    try {
      const outcomes: Outcome[] = [];
      for (const side of ["main", "worker"] as const) {
        this.say("running", side === "main" ? "On the main thread: the page will stand still…" : "In the web worker…");
        const task = await this.task();
        const outcome = await this.measure(side, task);
        outcomes.push(outcome);
        this.place.append(card(outcome));
      }
      this.finish(outcomes);
    } catch (error) {
      this.say("error", `Not compared: ${error instanceof Error ? error.message : String(error)}.`);
    } finally {
      this.busy = false;
      this.button.disabled = false;
      tell("idle", "has no work now");
    }
  }

  /** task fetches or reads the bytes anew: those of the run before were handed over, and are gone. */
  private async task(): Promise<Task> {
    if (this.what.value === "samples") return { what: "samples", parts: await fetchParts(this.section.dataset["source"] ?? "") };
    const file = this.file.files?.[0];
    if (file === undefined) throw new Error("choose a picture first");
    const bitmap = await createImageBitmap(file);
    const factor = Math.min(1, Math.sqrt(MOST_PIXELS / (bitmap.width * bitmap.height)));
    const canvas = make("canvas");
    canvas.width = Math.max(1, Math.round(bitmap.width * factor));
    canvas.height = Math.max(1, Math.round(bitmap.height * factor));
    const context = canvas.getContext("2d", { willReadFrequently: true });
    if (context === null) throw new Error("this browser gives no canvas");
    context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    bitmap.close();
    return { what: "picture", parts: [context.getImageData(0, 0, canvas.width, canvas.height).data.buffer as ArrayBuffer] };
  }

  private async measure(side: "main" | "worker", task: Task): Promise<Outcome> {
    const size = sizeOf(task);
    let total = 0;
    let left = size;
    const { value, frames, gaps } = await new Pulse(this.dot).during(async () => {
      const began = performance.now();
      let result: Result;
      if (side === "main") {
        result = work(task, () => performance.now());
      } else {
        const pending = this.bench.run(task);
        left = sizeOf(task);
        result = await pending;
      }
      total = performance.now() - began;
      return result;
    });
    return { side, result: value, total, frames, gaps, left, size };
  }

  private finish(outcomes: Outcome[]): void {
    const [main, worker] = outcomes;
    if (main === undefined || worker === undefined) return;
    this.runs++;
    const equal = comparable(main.result) === comparable(worker.result);
    const measured: Record<string, string | number | boolean> = { runs: this.runs, bytes: worker.size, bytesAfter: worker.left, equal };
    for (const one of outcomes) {
      measured[`${one.side}Ms`] = Math.round(one.result.took);
      measured[`${one.side}TotalMs`] = Math.round(one.total);
      measured[`${one.side}Dropped`] = one.frames.dropped;
      measured[`${one.side}LongestFrame`] = Math.round(one.frames.longest);
    }
    for (const [name, value] of Object.entries(measured)) this.section.dataset[name] = String(value);
    const rounded = [main.frames.dropped, worker.frames.dropped].map(count);
    const same = equal ? "Both found the same." : "They did not find the same: please report it.";
    this.say("done", `${same} Frames dropped: ${rounded[0] ?? ""} on the main thread, ${rounded[1] ?? ""} beside the web worker.`);
    showFound(this.found, worker.result);
    document.dispatchEvent(new CustomEvent("pgqueue:compared", { detail: measured }));
  }
}

/** card is one side's numbers. */
function card(outcome: Outcome): HTMLElement {
  const box = make("section", "card plain");
  box.dataset["side"] = outcome.side;
  box.append(make("h3", "", outcome.side === "main" ? "On the main thread" : "In the web worker"));
  const number = make("p", "number", span(outcome.result.took));
  number.append(" ", make("small", "", "of computing"));
  const facts = make("dl", "facts");
  const add = (term: string, text: string): void => facts.append(make("dt", "", term), make("dd", "", text));
  add("Until the result was here", span(outcome.total));
  add("Frames dropped", `${count(outcome.frames.dropped)} of ${count(outcome.frames.drawn + outcome.frames.dropped)}`);
  add("Longest stand-still", span(outcome.frames.longest));
  add("Bytes", outcome.side === "main" ? `${count(outcome.size)}, kept` : `${count(outcome.size)} handed over; the page has ${count(outcome.left)} left`);
  box.append(number, drawGaps(outcome), facts);
  return box;
}

/** drawGaps draws the time between frames: flat is smooth. */
function drawGaps(outcome: Outcome): SVGElement {
  const drawing = document.createElementNS(svg, "svg");
  drawing.setAttribute("class", "spark");
  drawing.setAttribute("viewBox", "0 0 200 40");
  drawing.setAttribute("preserveAspectRatio", "none");
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", `Time between frames: at most ${span(outcome.frames.longest)}`);
  const all = outcome.gaps.reduce((sum, gap) => sum + gap, 0);
  let at = 0;
  const path = outcome.gaps.map((gap) => {
    at += gap;
    const y = 38 - 36 * Math.min(1, Math.log10(1 + gap / 10) / Math.log10(1 + 2000 / 10));
    return `L${((at / all) * 200).toFixed(1)} ${y.toFixed(1)}`;
  });
  const line = document.createElementNS(svg, "path");
  line.setAttribute("d", `M0 38${path.join("")}`);
  drawing.append(line);
  return drawing;
}

/** showFound tells what was computed. */
function showFound(place: HTMLElement, result: Result): void {
  if (result.what === "samples") {
    const { report } = result;
    place.replaceChildren(make("p", "hint", `${count(report.count)} attempts: run p50 ${span(report.run.numbers.p50)}, p95 ${span(report.run.numbers.p95)}, p99 ${span(report.run.numbers.p99)}.`));
    return;
  }
  const { picture } = result;
  const list = make("ul", "swatches");
  for (const colour of picture.colours) {
    const code = `#${[colour.red, colour.green, colour.blue].map((n) => n.toString(16).padStart(2, "0")).join("")}`;
    const item = make("li");
    const box = document.createElementNS(svg, "svg");
    box.setAttribute("viewBox", "0 0 10 10");
    box.setAttribute("aria-hidden", "true");
    const square = document.createElementNS(svg, "rect");
    square.setAttribute("width", "10");
    square.setAttribute("height", "10");
    square.setAttribute("fill", code);
    box.append(square);
    item.append(box, `${code} ${percent(colour.share)}`);
    list.append(item);
  }
  place.replaceChildren(make("h3", "", "Main colours"), list, make("p", "", `Mean luminance ${Number.isNaN(picture.luminance) ? "–" : percent(picture.luminance)} of white, of ${count(picture.pixels)} pixels.`));
}

function tell(state: string, text: string): void {
  const place = document.getElementById("web-worker-state");
  place?.replaceChildren(state, " ", make("small", "", text));
}

/** tellServiceWorkers says what this browser has registered for these addresses, which is nothing of ours. */
async function tellServiceWorkers(): Promise<void> {
  const place = document.getElementById("service-worker-state");
  if (place === null) return;
  if (!("serviceWorker" in navigator)) {
    place.replaceChildren("none ", make("small", "", "possible here: that takes https"));
    return;
  }
  const all = await navigator.serviceWorker.getRegistrations().catch(() => []);
  const words = all.length === 0 ? "registered in this browser for these addresses" : "registered for these addresses, by something else than the console";
  place.replaceChildren(all.length === 0 ? "none " : `${count(all.length)} `, make("small", "", words));
}

const by = (id: string): HTMLElement | null => document.getElementById(id);
const [section, status, button, what, file, place, found] = ["comparison", "comparison-status", "compare", "what", "picture", "versus", "picture-result"].map(by);
const dot = document.getElementById("dot");
if (section && status && button instanceof HTMLButtonElement && what instanceof HTMLSelectElement && file instanceof HTMLInputElement && place && found && dot) {
  new Comparison(section, status, button, what, file, place, found, dot).start();
}
tell(typeof Worker === "undefined" ? "missing" : "idle", typeof Worker === "undefined" ? "this browser has none" : "it starts with its first work");
void tellServiceWorkers();
