// A chart: a canvas that can be pointed at and walked with the arrow keys, what stands under the cursor in words, and the
// same numbers as a table.

import type { Paper } from "./draw.js";
import { frame } from "./draw.js";

/** Table is the same as numbers. The first of each row is its head. */
export interface Table {
  head: string[];
  rows: string[][];
}

export interface ChartSpec {
  id: string;
  title: string;
  hint: string;
  summary: string; // what a reader who does not see it should know
  legend?: [string, string][]; // a class of charts.css, and what it stands for
  first: number; // the places that the cursor may take
  last: number;
  draw: (paper: Paper, cursor: number) => void;
  describe: (cursor: number) => string;
  table: () => Table;
}

const svg = "http://www.w3.org/2000/svg";

/** make is an element with a class and text. */
export function make<K extends keyof HTMLElementTagNameMap>(tag: K, className = "", text = ""): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  if (className !== "") element.className = className;
  if (text !== "") element.textContent = text;
  return element;
}

/** fillTable makes the table of a chart, or of anything. */
export function fillTable(caption: string, data: Table): HTMLElement {
  const table = make("table", "list");
  table.append(make("caption", "visually-hidden", caption));
  const head = table.createTHead().insertRow();
  data.head.forEach((words, n) => {
    const cell = make("th", n === 0 ? "" : "num", words);
    cell.scope = "col";
    head.append(cell);
  });
  const body = table.createTBody();
  for (const row of data.rows) {
    const line = body.insertRow();
    row.forEach((words, n) => {
      const cell = n === 0 ? make("th", "", words) : make("td", "num", words);
      if (cell.tagName === "TH") cell.scope = "row";
      cell.dataset["label"] = data.head[n] ?? "";
      line.append(cell);
    });
  }
  const scroll = make("div", "scroll");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", caption);
  scroll.append(table);
  return scroll;
}

export class Chart {
  readonly figure: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly readout: HTMLElement;
  private cursor = -1;
  private pending = false;

  constructor(private readonly spec: ChartSpec) {
    this.figure = make("figure", "chart");
    this.figure.id = `chart-${spec.id}`;
    const caption = make("figcaption");
    caption.append(make("h3", "", spec.title), make("p", "hint", spec.hint));
    this.canvas = make("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", `${spec.title}. ${spec.summary} Arrow keys read single values; a table follows.`);
    this.readout = make("p", "readout", "\u00a0");
    this.readout.setAttribute("aria-live", "polite");
    this.figure.append(caption, this.canvas, this.readout);
    if (spec.legend !== undefined) this.figure.append(this.legend(spec.legend));
    this.figure.append(this.details());
    this.listen();
  }

  private legend(entries: [string, string][]): HTMLElement {
    const list = make("ul", "legend");
    for (const [className, words] of entries) {
      const item = make("li");
      const box = document.createElementNS(svg, "svg");
      box.setAttribute("viewBox", "0 0 10 10");
      box.setAttribute("aria-hidden", "true");
      const square = document.createElementNS(svg, "rect");
      square.setAttribute("width", "10");
      square.setAttribute("height", "10");
      square.setAttribute("rx", "2");
      square.setAttribute("class", className);
      box.append(square);
      item.append(box, words);
      list.append(item);
    }
    return list;
  }

  /** The table is made when it is opened: there are six, of which most stay closed. */
  private details(): HTMLElement {
    const details = make("details");
    details.append(make("summary", "", "As a table"));
    details.addEventListener("toggle", () => {
      if (details.open && details.childElementCount === 1) details.append(fillTable(this.spec.title, this.spec.table()));
    });
    return details;
  }

  private listen(): void {
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
    this.canvas.addEventListener("keydown", (event) => {
      const { first, last } = this.spec;
      const steps: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -1e6, End: 1e6 };
      const by = steps[event.key];
      if (event.key === "Escape") this.point(-1);
      if (by === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      this.point(Math.min(last, Math.max(first, this.cursor < 0 ? (by > 0 && by < 100 ? first : by < 0 ? first : last) : this.cursor + by)));
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const box = this.canvas.getBoundingClientRect();
      const inside = frame(this.paper());
      const share = (event.clientX - box.left - inside.left) / inside.width;
      const { first, last } = this.spec;
      this.point(share < 0 || share >= 1 ? -1 : first + Math.floor(share * (last - first + 1)));
    });
    this.canvas.addEventListener("pointerleave", () => this.point(-1));
  }

  private point(cursor: number): void {
    if (cursor === this.cursor) return;
    this.cursor = cursor;
    this.readout.textContent = cursor < 0 ? "\u00a0" : this.spec.describe(cursor);
    this.redraw();
  }

  private paper(): Paper {
    const style = getComputedStyle(document.documentElement);
    const context = this.canvas.getContext("2d");
    if (context === null) throw new Error("no canvas");
    const colours = new Map<string, string>();
    const colour = (name: string): string => {
      const known = colours.get(name) ?? style.getPropertyValue(name).trim();
      colours.set(name, known);
      return known;
    };
    return {
      context,
      width: this.canvas.clientWidth,
      height: this.canvas.clientHeight,
      colour,
      font: `11px ${style.getPropertyValue("--sans").trim()}`,
    };
  }

  /** redraw draws in the next frame, once, however often it is asked. */
  redraw(): void {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      if (this.canvas.clientWidth === 0) return;
      const paper = this.paper();
      const dense = Math.min(2, devicePixelRatio || 1);
      const [width, height] = [Math.round(paper.width * dense), Math.round(paper.height * dense)];
      if (this.canvas.width !== width || this.canvas.height !== height) {
        this.canvas.width = width;
        this.canvas.height = height;
      }
      paper.context.setTransform(dense, 0, 0, dense, 0, 0);
      paper.context.clearRect(0, 0, paper.width, paper.height);
      this.spec.draw(paper, this.cursor);
    });
  }
}
