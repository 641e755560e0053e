// The page "Performance": fetches the samples, hands their bytes to the web worker, and draws what comes back, one chart a
// frame. What was measured stands in data attributes of the section, and in the event pgqueue:measured, for tests.

import type { Report } from "./core/report.js";
import { sizeOf, type Task } from "./core/work.js";
import { clock, count, span } from "./core/words.js";
import { Chart, make } from "./ui/chart.js";
import { outcomesIn, specsOf, tablesOf } from "./ui/charts.js";
import { LongTasks } from "./ui/longtasks.js";
import { fetchParts, Workbench } from "./ui/workbench.js";

class Page {
  private readonly bench = new Workbench();
  private charts: Chart[] = [];
  private runs = 0;
  private busy = false;

  constructor(
    private readonly section: HTMLElement,
    private readonly status: HTMLElement,
    private readonly place: HTMLElement,
    private readonly again: HTMLButtonElement,
  ) {}

  start(): void {
    this.section.hidden = false;
    this.again.addEventListener("click", () => void this.run());
    document.addEventListener("pgqueue:theme", () => this.charts.forEach((chart) => chart.redraw()));
    void this.run();
  }

  private say(state: string, text: string): void {
    this.section.dataset["state"] = state;
    this.status.textContent = text;
  }

  /** run reads and computes once. The bytes of an earlier run are gone: they were handed over. */
  private async run(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    this.again.disabled = true;
    const tasks = new LongTasks();
    tasks.start();
    try {
      this.say("loading", "Reading samples…");
      const began = performance.now();
      const progress = (bytes: number): void => {
        this.status.textContent = `Reading samples: ${count(bytes / 1e6)} MB…`;
      };
      const task: Task = { what: "samples", parts: await fetchParts(this.section.dataset["source"] ?? "", progress) };
      const size = sizeOf(task);
      const fetched = performance.now();
      this.say("computing", `Computing on ${count(size / 1e6)} MB in the web worker…`);
      const pending = this.bench.run(task);
      const left = sizeOf(task); // 0: the worker has them
      const result = await pending;
      if (result.what !== "samples") throw new Error("the worker answered something else");
      const computed = performance.now();
      await new Promise(requestAnimationFrame); // drawing begins in a turn of its own
      await this.show(result.report);
      const drawn = performance.now();
      await tasks.stop();
      this.runs++;
      const measured = {
        runs: this.runs, samples: result.report.count, bytes: size, bytesAfter: left, fetchMs: Math.round(fetched - began),
        computeMs: Math.round(result.took), workerMs: Math.round(computed - fetched), drawMs: Math.round(drawn - computed),
        longestTaskMs: Math.round(tasks.longest(began, drawn)), longestTaskReadingMs: Math.round(tasks.longest(began, fetched)),
        longestTaskComputingMs: Math.round(tasks.longest(fetched, computed)), longestTaskDrawingMs: Math.round(tasks.longest(computed, drawn)),
      };
      for (const [name, value] of Object.entries(measured)) this.section.dataset[name] = String(value);
      this.say(result.report.count === 0 ? "empty" : "done", this.summary(result.report, measured.fetchMs, measured.computeMs));
      document.dispatchEvent(new CustomEvent("pgqueue:measured", { detail: measured }));
    } catch (error) {
      void tasks.stop();
      this.say("error", `Not drawn: ${error instanceof Error ? error.message : String(error)}.`);
    } finally {
      this.busy = false;
      this.again.disabled = false;
    }
  }

  private summary(report: Report, fetchMs: number, computeMs: number): string {
    if (report.count === 0) return "No attempt has finished in this time.";
    const width = report.to - report.from;
    const reach = `${clock(report.from, Math.max(width, 864e5))} to ${clock(report.to, Math.max(width, 864e5))} UTC`;
    return `${count(report.count)} attempts${report.more ? ", the latest of more" : ""}: ${outcomesIn(report)}; ${reach}. Read in ${span(fetchMs)}, computed beside this page in ${span(computeMs)}.`;
  }

  /** show draws one chart a frame, so that none of them holds the page up. */
  private async show(report: Report): Promise<void> {
    this.place.replaceChildren();
    this.charts = [];
    if (report.count === 0) {
      this.place.append(make("p", "empty", "No attempt has finished in this time."));
      return;
    }
    for (const spec of specsOf(report)) {
      const chart = new Chart(spec);
      this.charts.push(chart);
      this.place.append(chart.figure);
      chart.redraw();
      await new Promise(requestAnimationFrame);
    }
    for (const table of tablesOf(report)) {
      this.place.append(table);
      await new Promise(requestAnimationFrame);
    }
    this.suggest(report);
  }

  private suggest(report: Report): void {
    const list = document.getElementById("sample-kinds");
    list?.replaceChildren(...report.kinds.map((kind) => Object.assign(make("option"), { value: kind.name })));
  }
}

const section = document.getElementById("performance");
const status = document.getElementById("status");
const place = document.getElementById("charts");
const again = document.getElementById("again");
if (section !== null && status !== null && place !== null && again instanceof HTMLButtonElement) new Page(section, status, place, again).start();
