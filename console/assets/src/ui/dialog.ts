// A link with data-dialog opens the inside of its page in a dialog. What is sent from there goes the ordinary way: the form
// posts, and the browser follows the answer. Without scripts, or where anything is odd, the link is a link.

import { changed } from "./changed.js";
import { fetchPart } from "./fetch.js";

const TIMEOUT = 15_000;

/** showDialog opens a dialog with this content, named by its first heading, and returns it. */
export function showDialog(content: Node, opener: Element | null): HTMLDialogElement {
  document.querySelector<HTMLDialogElement>("dialog.modal[open]")?.close();
  const dialog = document.createElement("dialog");
  dialog.className = "modal";
  const close = document.createElement("button");
  close.type = "button";
  close.className = "tool dialog-close";
  close.setAttribute("aria-label", "Close");
  close.textContent = "✕";
  close.addEventListener("click", () => leave(dialog));
  const body = document.createElement("div");
  body.className = "dialog-body";
  body.append(content);
  dialog.append(close, body);
  label(dialog);
  // A click beside it closes it. Who selects text and lets go out there has not clicked there: both ends of a click count.
  let beside = false;
  dialog.addEventListener("pointerdown", (event) => {
    beside = event.target === dialog;
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog && beside) leave(dialog);
    beside = false;
  });
  dialog.addEventListener("cancel", (event) => {
    if (event.target === dialog && !mayLeave(dialog)) event.preventDefault(); // Escape
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (opener instanceof HTMLElement && opener.isConnected) opener.focus({ preventScroll: true });
  });
  document.body.append(dialog);
  dialog.showModal();
  // The first field, or else what can be read: never the button that does it.
  const first = body.querySelector<HTMLElement>("[autofocus], input:not([type=hidden], [type=submit]), textarea, select");
  const heading = body.querySelector<HTMLElement>("h1, h2");
  if (first !== null) {
    first.focus();
  } else if (heading !== null) {
    heading.tabIndex = -1;
    heading.focus();
  }
  return dialog;
}

/** mayLeave asks before what was typed is lost. */
function mayLeave(dialog: HTMLDialogElement): boolean {
  return !changed(dialog) || confirm("Close this, and lose what you have changed in it?");
}

function leave(dialog: HTMLDialogElement): void {
  if (mayLeave(dialog)) dialog.close();
}

function label(dialog: HTMLDialogElement): void {
  const heading = dialog.querySelector(".dialog-body h1, .dialog-body h2");
  if (heading === null) {
    dialog.setAttribute("aria-label", "Dialog");
    return;
  }
  if (heading.id === "") heading.id = "dialog-title";
  dialog.setAttribute("aria-labelledby", heading.id);
}

async function open(url: string, opener: Element | null): Promise<void> {
  try {
    const part = await fetchPart(url, null, AbortSignal.timeout(TIMEOUT));
    if (part.body === undefined) throw new Error("no content");
    const content = document.createDocumentFragment();
    content.append(...part.body.childNodes);
    showDialog(content, opener);
    document.dispatchEvent(new CustomEvent("pgqueue:updated"));
  } catch {
    location.assign(url);
  }
}

export function startDialogs(): void {
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const target = event.target instanceof Element ? event.target : null;
    const dialog = target?.closest<HTMLDialogElement>("dialog.modal") ?? null;
    if (dialog !== null && target?.closest("[data-close]") != null) {
      event.preventDefault();
      leave(dialog);
      return;
    }
    const link = target?.closest<HTMLAnchorElement>("a[data-dialog]") ?? null;
    if (link === null || link.origin !== location.origin) return;
    event.preventDefault();
    void open(link.href, dialog === null ? link : null);
  });
  // A GET form in a dialog, a preview with other options say, stays in the dialog.
  document.addEventListener("submit", (event) => {
    const form = event.target instanceof HTMLFormElement ? event.target : null;
    if (form === null || form.method !== "get" || form.closest("dialog.modal") === null || event.defaultPrevented) return;
    event.preventDefault();
    const url = new URL(form.action);
    const query = new URLSearchParams();
    for (const [key, value] of new FormData(form, event.submitter)) if (typeof value === "string") query.append(key, value);
    url.search = query.toString();
    void open(url.href, null);
  });
  // Twice pressed is sent once.
  document.addEventListener("submit", (event) => {
    const form = event.target instanceof HTMLFormElement ? event.target : null;
    if (form === null || form.method !== "post" || event.defaultPrevented) return;
    if (form.dataset["sent"] === "yes") event.preventDefault();
    form.dataset["sent"] = "yes";
    setTimeout(() => delete form.dataset["sent"], 3_000); // the answer may be a file, or the reader may come back
  });
}
