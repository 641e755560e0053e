// Pages as parts: a request with HX-Request gets the inside of <main> alone, of the same template.

/** A part of a page as the server sent it. body is undefined where nothing has changed (204 or 304). */
export interface Part {
  status: number;
  tag: string | null;
  body: HTMLElement | undefined;
  at: number; // the server's clock, in milliseconds
}

/** Gone says that the page cannot be had any more in this way: a login has ended, or a proxy answers with its own page. */
export class Gone extends Error {}

/**
 * fetchPart asks for the inside of a page's <main>. It rejects where there is no answer, and with Gone where the answer is
 * no page of the console.
 */
export async function fetchPart(url: string, tag: string | null, signal: AbortSignal): Promise<Part> {
  const headers: Record<string, string> = { "HX-Request": "true", Accept: "text/html" };
  if (tag !== null) headers["If-None-Match"] = tag;
  const response = await fetch(url, { headers, signal, credentials: "same-origin", cache: "no-store" });
  const date = Date.parse(response.headers.get("Date") ?? "");
  const part: Part = { status: response.status, tag: response.headers.get("ETag"), body: undefined, at: Number.isNaN(date) ? Date.now() : date };
  if (response.status === 204 || response.status === 304) return part;
  if (response.redirected || response.status === 401 || !(response.headers.get("Content-Type") ?? "").startsWith("text/html")) {
    throw new Gone(`HTTP ${response.status}`);
  }
  part.body = insideOfMain(await response.text());
  return part;
}

/** insideOfMain parses a part, or a whole page of which it takes <main>. Scripts of what is parsed do not run. */
export function insideOfMain(text: string): HTMLElement {
  const page = new DOMParser().parseFromString(text, "text/html");
  return page.querySelector("main") ?? page.body;
}
