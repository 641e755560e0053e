// Ticking rows: a box in the head for all of them, shift-click for a range, and a count. The boxes are ordinary ones, named
// "id", of an ordinary form.
//
//   input[data-select-all]      ticks all boxes of its table; made in an empty first head cell where there is none
//   [data-selected-count]       gets the number of ticked boxes of its form
//   [data-needs-selection]      is disabled, or hidden where it cannot be, while none is ticked

import { between } from "../core/range.js";

const box = 'input[type="checkbox"][name="id"]';

let last: HTMLInputElement | null = null;

function boxes(table: ParentNode): HTMLInputElement[] {
  return Array.from(table.querySelectorAll<HTMLInputElement>(`tbody ${box}:not(:disabled)`));
}

function prepare(): void {
  for (const table of document.querySelectorAll<HTMLTableElement>("table.list")) {
    if (boxes(table).length === 0) continue;
    const cell = table.querySelector<HTMLElement>("thead th:first-child");
    if (table.querySelector("[data-select-all]") === null && cell !== null && (cell.textContent ?? "").trim() === "") {
      const all = document.createElement("input");
      all.type = "checkbox";
      all.dataset["selectAll"] = "";
      all.dataset["keep"] = "";
      all.setAttribute("aria-label", "Select all rows of this page");
      cell.replaceChildren(all);
    }
  }
  show();
}

function show(): void {
  for (const table of document.querySelectorAll<HTMLTableElement>("table.list")) {
    const all = table.querySelector<HTMLInputElement>("[data-select-all]");
    if (all === null) continue;
    const rows = boxes(table);
    const ticked = rows.filter((one) => one.checked).length;
    all.checked = ticked > 0 && ticked === rows.length;
    all.indeterminate = ticked > 0 && ticked < rows.length;
  }
  for (const element of document.querySelectorAll<HTMLElement>("[data-selected-count], [data-needs-selection]")) {
    const form = element.closest("form") ?? document;
    const outside = form instanceof HTMLFormElement && form.id !== "" ? document.querySelectorAll(`${box}[form="${CSS.escape(form.id)}"]:checked`).length : 0;
    const count = form.querySelectorAll(`${box}:checked`).length + outside;
    if (element.hasAttribute("data-selected-count")) {
      if (element.textContent !== String(count)) element.textContent = String(count);
    } else if (element instanceof HTMLButtonElement) {
      element.disabled = count === 0;
    } else {
      element.hidden = count === 0;
    }
  }
}

export function startSelect(): void {
  document.addEventListener("click", (event) => {
    const target = event.target;
    if (!(target instanceof HTMLInputElement) || !target.matches(box)) return;
    const table = target.closest("table");
    if (event.shiftKey && last !== null && table !== null && table.contains(last)) {
      const all = boxes(table);
      for (const n of between(all.indexOf(last), all.indexOf(target))) {
        const one = all[n];
        if (one !== undefined) one.checked = target.checked;
      }
    }
    last = target;
    show();
  });
  document.addEventListener("change", (event) => {
    const target = event.target;
    if (target instanceof HTMLInputElement && target.matches("[data-select-all]")) {
      for (const one of boxes(target.closest("table") ?? document)) one.checked = target.checked;
    }
    show();
  });
  document.addEventListener("pgqueue:updated", prepare);
  prepare();
}
