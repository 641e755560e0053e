// Buttons that copy: <button data-copy="text">, and one beside each <pre class="code">. Where the browser gives no clipboard,
// as on a plain http address, there are none.

function said(button: HTMLElement, text: string): void {
  const before = button.textContent;
  button.textContent = text;
  setTimeout(() => (button.textContent = before), 1_500);
}

function addButtons(): void {
  for (const code of document.querySelectorAll<HTMLElement>("pre.code:not([data-copyable])")) {
    code.dataset["copyable"] = "";
    if ((code.textContent ?? "").length < 2 || code.previousElementSibling?.matches("[data-copy-next]") === true) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button quiet small copy";
    button.dataset["copyNext"] = "";
    button.dataset["keep"] = "";
    button.textContent = "Copy";
    code.before(button);
  }
}

export function startCopy(): void {
  if (navigator.clipboard === undefined) {
    for (const button of document.querySelectorAll<HTMLElement>("button[data-copy]")) button.hidden = true;
    return;
  }
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest<HTMLElement>("button[data-copy], button[data-copy-next]") : null;
    if (button === null) return;
    const text = button.dataset["copy"] ?? button.nextElementSibling?.textContent ?? "";
    navigator.clipboard.writeText(text).then(
      () => said(button, "Copied"),
      () => said(button, "Not copied"),
    );
  });
  document.addEventListener("pgqueue:updated", addButtons);
  addButtons();
}
