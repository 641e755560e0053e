// The module worker of the console: it passes messages, and computes with core/work.ts. It has no state, and ends with its page.

import { buffersOf, work, type Task } from "./core/work.js";

/** What it is asked, and what it answers. */
interface Asked {
  id: number;
  task: Task;
}

// The library of types here is the pages'; of a worker's own scope this is what is used.
const scope = self as unknown as {
  addEventListener(type: "message", listener: (event: MessageEvent<Asked>) => void): void;
  postMessage(message: unknown, transfer: Transferable[]): void;
};

scope.addEventListener("message", (event) => {
  const { id, task } = event.data;
  try {
    const result = work(task, () => performance.now());
    scope.postMessage({ id, result }, buffersOf(result));
  } catch (error) {
    scope.postMessage({ id, error: error instanceof Error ? error.message : String(error) }, []);
  }
});
