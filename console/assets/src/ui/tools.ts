// The buttons at the right of the bar that only scripts can serve; without scripts they are not there.

const svg = "http://www.w3.org/2000/svg";

/** icon draws one path of a 16 by 16 grid; it is decoration, so what holds it needs a name. */
export function icon(path: string): SVGElement {
  const drawing = document.createElementNS(svg, "svg");
  drawing.setAttribute("viewBox", "0 0 16 16");
  drawing.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(svg, "path");
  line.setAttribute("d", path);
  drawing.append(line);
  return drawing;
}

/** tool adds a button to the bar and returns it. */
export function tool(id: string, label: string, onClick: () => void): HTMLButtonElement {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "tool";
  button.id = id;
  name(button, label);
  button.addEventListener("click", onClick);
  bar().append(button);
  return button;
}

/** name gives a control its name for everybody: read out, and shown by the pointer. */
export function name(button: HTMLElement, label: string): void {
  button.setAttribute("aria-label", label);
  button.title = label;
}

function bar(): HTMLElement {
  const known = document.querySelector<HTMLElement>("header .tools");
  if (known !== null) return known;
  const made = document.createElement("div");
  made.className = "tools";
  document.querySelector("body > header")?.append(made);
  return made;
}

/** typing says whether a key press belongs to a field. */
export function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches("input:not([type=checkbox], [type=radio], [type=button], [type=submit]), textarea, select"));
}
