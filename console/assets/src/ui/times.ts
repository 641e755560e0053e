// "5 s ago" grows old: the words of each <time> that the server wrote in words are kept up to date, by the server's clock as
// far as it is known. A tap shows the instant beside the words, for those who have no pointer to rest on them.

import { isRelative, relative } from "../core/relative.js";

let skew = 0;

/** setClock tells the server's time, in milliseconds. Dates in headers have no fraction, so small differences are noise. */
export function setClock(server: number): void {
  const difference = server - Date.now();
  skew = Math.abs(difference) < 2_000 ? 0 : difference;
}

function update(): void {
  if (document.hidden) return;
  const now = Date.now() + skew;
  for (const element of document.querySelectorAll<HTMLTimeElement>("time[datetime][title]")) {
    const text = element.textContent ?? "";
    if (!isRelative(text)) continue;
    const at = Date.parse(element.dateTime);
    const words = Number.isNaN(at) ? text : relative(at, now);
    if (words !== text) element.textContent = words;
  }
}

/** SHOWN marks a <time> that is shown in full, see details.css; a refresh leaves it. */
export const SHOWN = "data-shown";

export function startTimes(): void {
  document.addEventListener("click", (event) => {
    const time = event.target instanceof Element ? event.target.closest("time[title]") : null;
    if (time !== null && !event.defaultPrevented && time.closest("a, button, summary, label") === null) time.toggleAttribute(SHOWN);
  });
  setInterval(update, 1_000);
  document.addEventListener("pgqueue:updated", update);
  document.addEventListener("visibilitychange", update);
}
