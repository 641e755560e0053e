// A page with <main data-live> is kept up to date: once a second while it is seen, its inside is fetched again and morphed,
// so that focus, ticks, open details and the scroll position stay. It rests while the tab is hidden, a dialog is open, text
// is selected, or the reader has pressed "Pause updates", and comes back slowly after errors.

import { Idiomorph } from "idiomorph";
import { PACE, wait } from "../core/backoff.js";
import { carry, keyRows } from "./carry.js";
import { fetchPart, Gone } from "./fetch.js";
import { setClock, SHOWN } from "./times.js";
import { name, tool } from "./tools.js";

const TIMEOUT = 15_000;

type State = "live" | "paused" | "failing" | "gone";

export function startLive(): void {
  const main = document.querySelector<HTMLElement>("main[data-live]");
  if (main !== null) new Live(main).start();
}

class Live {
  private timer = 0;
  private failures = 0;
  private paused = sessionStorage.getItem("pgqueue.paused") === "yes";
  private gone = false;
  private running = false;
  private tag: string | null;
  private seenAt = Date.now();
  private readonly button: HTMLButtonElement;
  private readonly text: HTMLSpanElement;

  constructor(private readonly main: HTMLElement) {
    const version = main.dataset["version"];
    this.tag = version === undefined ? null : `"${version}"`;
    this.button = tool("live", "Live: pause updates", () => this.toggle());
    const dot = document.createElement("span");
    dot.className = "dot";
    this.text = document.createElement("span");
    this.text.className = "text";
    this.button.append(dot, this.text);
    this.button.setAttribute("aria-pressed", "false");
  }

  start(): void {
    keyRows(this.main);
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.schedule(0);
    });
    document.addEventListener("pgqueue:refresh", () => this.schedule(0));
    this.show();
    this.schedule(this.pace());
  }

  private pace(): number {
    const wished = Number(this.main.dataset["live"]);
    return wished >= 250 ? wished : PACE;
  }

  private toggle(): void {
    if (this.gone) {
      location.reload();
      return;
    }
    this.paused = !this.paused;
    sessionStorage.setItem("pgqueue.paused", this.paused ? "yes" : "no");
    this.show();
    if (!this.paused) this.schedule(0);
  }

  private schedule(after: number): void {
    clearTimeout(this.timer);
    if (this.gone || this.running) return;
    this.timer = window.setTimeout(() => void this.turn(), after);
  }

  private rests(): boolean {
    if (this.paused || document.hidden || document.querySelector("dialog[open]") !== null) return true;
    const selection = document.getSelection();
    return selection !== null && !selection.isCollapsed && this.main.contains(selection.anchorNode);
  }

  private async turn(): Promise<void> {
    if (this.rests()) {
      if (!this.paused && !document.hidden) this.schedule(this.pace());
      return;
    }
    this.running = true;
    try {
      await this.refresh();
      this.failures = 0;
      this.seenAt = Date.now();
    } catch (error) {
      if (error instanceof Gone) this.gone = true;
      this.failures++;
    } finally {
      this.running = false;
    }
    this.show();
    this.schedule(wait(this.failures, Math.random(), this.pace()));
  }

  private async refresh(): Promise<void> {
    const part = await fetchPart(location.href, this.tag, AbortSignal.timeout(TIMEOUT));
    setClock(part.at);
    if (part.status >= 500) throw new Error(`HTTP ${part.status}`);
    if (part.body === undefined || this.rests()) return; // meanwhile somebody began to select, or opened a dialog
    this.tag = part.tag;
    morph(this.main, part.body);
    document.dispatchEvent(new CustomEvent("pgqueue:updated"));
  }

  private show(): void {
    const state: State = this.gone ? "gone" : this.paused ? "paused" : this.failures > 1 ? "failing" : "live";
    const words: Record<State, [string, string]> = {
      live: ["Live", "pause updates"],
      paused: ["Paused", "resume updates"],
      failing: [`No answer for ${Math.round((Date.now() - this.seenAt) / 1000)} s`, "pause updates"],
      gone: ["Signed out", "reload the page"],
    };
    this.button.dataset["state"] = state === "gone" ? "failing" : state;
    this.button.setAttribute("aria-pressed", String(this.paused));
    const [text, does] = words[state];
    if (this.text.textContent !== text) this.text.textContent = text;
    name(this.button, `${text}: ${does}`); // a name holds the words that are seen, for those who speak to the browser
  }
}

/** morph makes the inside of main equal to fresh's, with as few changes as it takes. */
export function morph(main: HTMLElement, fresh: HTMLElement): void {
  keyRows(main);
  keyRows(fresh);
  carry(main, fresh);
  const known = new Set(Array.from(main.querySelectorAll("tbody > tr[id]"), (row) => row.id));
  Idiomorph.morph(main, fresh.innerHTML, {
    morphStyle: "innerHTML",
    ignoreActiveValue: true,
    callbacks: {
      beforeNodeMorphed: (old: Node) => !(old instanceof Element && old.hasAttribute("data-keep")),
      beforeNodeRemoved: (old: Node) => !(old instanceof Element && old.hasAttribute("data-keep")),
      beforeAttributeUpdated: (attribute: string, element: Element) => !(attribute === "open" && element instanceof HTMLDialogElement) && attribute !== SHOWN,
      afterNodeAdded: (node: Node) => {
        if (known.size > 0 && node instanceof HTMLTableRowElement && node.id !== "" && !known.has(node.id)) node.classList.add("arrived");
      },
    },
  });
}
