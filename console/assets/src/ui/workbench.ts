// The page's side of the web worker.

import type { Result, Task } from "../core/work.js";

// How long the page may be kept by one turn of reading, in milliseconds.
const SLICE = 8;

/** Workbench starts the worker at its first task. */
export class Workbench {
  private worker: Worker | undefined;
  private next = 0;
  private readonly waiting = new Map<number, { resolve: (result: Result) => void; reject: (error: Error) => void }>();

  /** run hands a task over: its bytes are the worker's afterwards, and the caller's buffers are empty. */
  run(task: Task): Promise<Result> {
    const worker = (this.worker ??= this.start());
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      worker.postMessage({ id, task }, task.parts);
    });
  }

  private start(): Worker {
    // Beside this module, under the same version: see static.go.
    const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module", name: "pgqueue" });
    worker.addEventListener("message", (event: MessageEvent<{ id: number; result?: Result; error?: string }>) => {
      const { id, result, error } = event.data;
      const one = this.waiting.get(id);
      this.waiting.delete(id);
      if (result !== undefined) one?.resolve(result);
      else one?.reject(new Error(error ?? "the worker gave no answer"));
    });
    worker.addEventListener("error", (event) => {
      for (const one of this.waiting.values()) one.reject(new Error(event.message === "" ? "the worker could not be started" : event.message));
      this.waiting.clear();
      this.worker = undefined;
    });
    return worker;
  }
}

/**
 * fetchParts reads an answer part by part, as it arrives: put together, 23 MB would keep the main thread for longer than a frame. The
 * worker does that. progress is told how many bytes there are.
 */
export async function fetchParts(url: string, progress: (bytes: number) => void = () => {}): Promise<ArrayBuffer[]> {
  const response = await fetch(url, { credentials: "same-origin", cache: "no-store" });
  if (!response.ok) throw new Error(response.status === 429 ? "others are reading samples; try again in a few seconds" : `the console answered ${response.status}`);
  if (response.body === null) return [await response.arrayBuffer()];
  const parts: ArrayBuffer[] = [];
  let bytes = 0;
  const reader = response.body.getReader();
  let turn = performance.now();
  for (;;) {
    // What has arrived meanwhile is there at once, and would be taken in one go however much it is.
    if (performance.now() - turn > SLICE) {
      progress(bytes);
      await new Promise((resolve) => setTimeout(resolve, 0));
      turn = performance.now();
    }
    const { done, value } = await reader.read();
    if (done) return parts;
    const whole = value.byteOffset === 0 && value.byteLength === value.buffer.byteLength;
    parts.push(whole ? value.buffer : value.slice().buffer);
    bytes += value.byteLength;
  }
}
