// The keyboard: "?" shows what there is. Keys that belong to a field, or come with Ctrl, Alt or Meta, are left alone.

import { move } from "../core/range.js";
import { Sequences } from "../core/sequence.js";
import { showDialog } from "./dialog.js";
import { tool, typing } from "./tools.js";

/** The menu says its keys itself: <a data-key="j">. */
function menu(): HTMLAnchorElement[] {
  return Array.from(document.querySelectorAll<HTMLAnchorElement>("header a[data-key]"));
}

function rows(): HTMLTableRowElement[] {
  return Array.from(document.querySelectorAll<HTMLTableRowElement>("main table.list tbody > tr"));
}

function step(by: number): void {
  const all = rows();
  const row = all[move(all.findIndex((one) => one.hasAttribute("data-current")), by, all.length)];
  if (row === undefined) return;
  for (const one of all) one.toggleAttribute("data-current", one === row);
  const target = row.querySelector<HTMLElement>("a[href]") ?? row;
  target.focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
}

function help(): void {
  const content = document.createDocumentFragment();
  const heading = document.createElement("h1");
  heading.textContent = "Keyboard";
  const list = document.createElement("dl");
  list.className = "keys";
  const add = (keys: string[], text: string): void => {
    const term = document.createElement("dt");
    keys.forEach((key, n) => {
      const cap = document.createElement("kbd");
      cap.textContent = key;
      term.append(n === 0 ? "" : " ", cap);
    });
    const meaning = document.createElement("dd");
    meaning.textContent = text;
    list.append(term, meaning);
  };
  for (const link of menu()) add(["g", link.dataset["key"] ?? ""], `Go to ${link.textContent?.trim() ?? ""}`);
  add(["j"], "Next row");
  add(["k"], "Previous row");
  add(["Enter"], "Open the row");
  add(["x"], "Tick the row");
  add(["/"], "Search");
  add(["r"], "Refresh now");
  add(["."], "Pause or resume updates");
  add(["t"], "Light, dark, or as the system has it");
  add(["?"], "This list");
  content.append(heading, list);
  showDialog(content, document.activeElement);
}

const actions: Record<string, () => void> = {
  next: () => step(1),
  previous: () => step(-1),
  help,
  tick: () => document.querySelector<HTMLInputElement>('main tr[data-current] input[type="checkbox"]')?.click(),
  search: () => document.querySelector<HTMLElement>("main [data-search], main input[type=search], main form.filters input:not([type=hidden])")?.focus(),
  refresh: () => document.dispatchEvent(new CustomEvent("pgqueue:refresh")),
  live: () => document.getElementById("live")?.click(),
  theme: () => document.getElementById("theme")?.click(),
};

export function startKeys(): void {
  const meanings = new Map([["?", "help"], ["j", "next"], ["k", "previous"], ["x", "tick"], ["/", "search"], ["r", "refresh"], [".", "live"], ["t", "theme"]]);
  for (const link of menu()) meanings.set(`g ${link.dataset["key"] ?? ""}`, `go ${link.href}`);
  const sequences = new Sequences(meanings);
  tool("help", "Keyboard shortcuts", help).textContent = "?";
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (typing(event.target)) {
      if (event.key === "Escape" && event.target instanceof HTMLElement) event.target.blur();
      return;
    }
    if (document.querySelector("dialog[open]") !== null) return;
    const meaning = sequences.press(event.key, event.timeStamp);
    if (meaning === undefined) return;
    event.preventDefault();
    if (meaning.startsWith("go ")) location.assign(meaning.slice(3));
    else actions[meaning]?.();
  });
  document.addEventListener("pgqueue:updated", () => {
    const current = document.activeElement?.closest("main table.list tbody > tr");
    if (current != null) current.toggleAttribute("data-current", true);
  });
}
