// What an action has said is said once: the word leaves the address, so that neither a reload nor a bookmark repeats it, and the
// sentence stays on this page until the reader goes on.

export function startDone(): void {
  const url = new URL(location.href);
  if (!url.searchParams.has("done")) return;
  for (const notice of document.querySelectorAll("#main > .results > *")) notice.setAttribute("data-keep", "");
  url.searchParams.delete("done");
  history.replaceState(history.state, "", url);
}
