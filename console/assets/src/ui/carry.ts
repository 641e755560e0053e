// What a reader has done to a page and a refresh must not undo: what is ticked, typed, opened. It is carried over by name
// and value, never by position: the row that stood here a second ago may be another one now, and a tick that jumps from one
// job to its neighbour deletes the wrong job.

/** keyRows gives each row of a list an id of what it is about, so that the morph moves rows and does not rewrite them. */
export function keyRows(root: ParentNode): void {
  const taken = new Set<string>();
  for (const row of root.querySelectorAll<HTMLTableRowElement>("tbody > tr:not([id])")) {
    const about =
      row.dataset["key"] ??
      row.querySelector<HTMLInputElement>('input[type="checkbox"][name="id"]')?.value ??
      row.querySelector<HTMLAnchorElement>("a[href]")?.getAttribute("href");
    if (about === undefined || about === null) continue;
    const id = `row:${about}`;
    if (taken.has(id)) continue;
    taken.add(id);
    row.id = id;
  }
}

function inputKey(input: HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement): string {
  const form = input.form?.getAttribute("action") ?? "";
  const value = input instanceof HTMLInputElement && (input.type === "checkbox" || input.type === "radio") ? input.value : "";
  return `${form}|${input.name}|${input.type}|${value}|${input.name === "" ? input.id : ""}`;
}

/** detailsKey is what a <details> is about: its id, or the words of its summary, in which numbers may change. */
function detailsKey(details: HTMLDetailsElement): string {
  if (details.id !== "") return details.id;
  const around = details.closest("tr[id], li[id], section[id]")?.id ?? "";
  const words = details.dataset["key"] ?? details.querySelector("summary")?.textContent ?? "";
  return `${around}|${words.replace(/\d[\d.,\s]*/g, "#").trim()}`;
}

/** carry puts the reader's state of the old content into the new one, before that replaces it. */
export function carry(old: HTMLElement, fresh: HTMLElement): void {
  const inputs = new Map<string, HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement>();
  for (const input of old.querySelectorAll<HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement>("input, select, textarea")) {
    if (!inputs.has(inputKey(input))) inputs.set(inputKey(input), input);
  }
  for (const input of fresh.querySelectorAll<HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement>("input, select, textarea")) {
    const before = inputs.get(inputKey(input));
    if (before === undefined) continue;
    if (input instanceof HTMLInputElement && before instanceof HTMLInputElement) {
      if (input.type === "hidden" || input.type === "submit") continue; // the server's: a token, a version
      if (input.type === "checkbox" || input.type === "radio") {
        input.checked = before.checked;
        input.toggleAttribute("checked", before.checked);
        continue;
      }
      if (before.value !== before.defaultValue) {
        input.value = before.value;
        input.setAttribute("value", before.value);
      }
    } else if (input instanceof HTMLTextAreaElement && before instanceof HTMLTextAreaElement) {
      if (before.value !== before.defaultValue) input.textContent = before.value;
    } else if (input instanceof HTMLSelectElement && before instanceof HTMLSelectElement && !before.multiple) {
      for (const option of input.options) option.toggleAttribute("selected", option.value === before.value);
      input.value = before.value;
    }
  }
  const open = new Map<string, boolean>();
  for (const details of old.querySelectorAll("details")) open.set(detailsKey(details), details.open);
  for (const details of fresh.querySelectorAll("details")) {
    const before = open.get(detailsKey(details));
    if (before !== undefined) details.open = before;
  }
}
