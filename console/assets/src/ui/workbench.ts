// The page's side of the web worker.

import type { Result, Task } from "../core/work.js";

/** Workbench starts the worker at its first task. */
export class Workbench {
  private worker: Worker | undefined;
  private next = 0;
  private readonly waiting = new Map<number, { resolve: (result: Result) => void; reject: (error: Error) => void }>();

  /** run hands a task over: its bytes are the worker's afterwards, and the caller's buffer is empty. */
  run(task: Task): Promise<Result> {
    const worker = (this.worker ??= this.start());
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      worker.postMessage({ id, task }, [task.bytes]);
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

/** fetchBytes reads an answer whole. */
export async function fetchBytes(url: string): Promise<ArrayBuffer> {
  const response = await fetch(url, { credentials: "same-origin", cache: "no-store" });
  if (!response.ok) throw new Error(response.status === 429 ? "others are reading samples; try again in a few seconds" : `the console answered ${response.status}`);
  return response.arrayBuffer();
}
