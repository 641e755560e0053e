// What a web worker is asked for, and what it answers: plain messages. Pure; worker.ts passes them on, and the comparison
// calls the same function where it stands.

import { decode } from "./columns.js";
import { picture, type Picture } from "./picture.js";
import { report, type Report } from "./report.js";

/** Task is a piece of work: bytes in parts, as they came, handed over. */
export interface Task {
  what: "samples" | "picture";
  parts: ArrayBuffer[];
}

/** sizeOf is how many bytes the parts of a task have; 0 after they were handed over. */
export function sizeOf(task: Task): number {
  return task.parts.reduce((sum, part) => sum + part.byteLength, 0);
}

/** join puts parts together. */
export function join(parts: ArrayBuffer[]): ArrayBuffer {
  if (parts.length === 1 && parts[0] !== undefined) return parts[0];
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.byteLength, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(new Uint8Array(part), at);
    at += part.byteLength;
  }
  return whole.buffer;
}

/** Result is what became of it. took is the time of the computation alone, in milliseconds. */
export type Result = { what: "samples"; took: number; report: Report } | { what: "picture"; took: number; picture: Picture };

/** work does a task. It throws where the bytes are not what they should be. */
export function work(task: Task, now: () => number): Result {
  const began = now();
  if (task.what === "samples") {
    const made = report(decode(join(task.parts)));
    return { what: "samples", report: made, took: now() - began };
  }
  const made = picture(new Uint8ClampedArray(join(task.parts)));
  return { what: "picture", picture: made, took: now() - began };
}

/** buffersOf are the buffers of a result, to be handed back without a copy. */
export function buffersOf(result: Result): ArrayBuffer[] {
  if (result.what !== "samples") return [];
  const { wait, run, perSlice } = result.report;
  const arrays = [perSlice, ...[wait, run].flatMap((one) => [one.good, one.bad, one.heat, ...one.courses])];
  return arrays.map((array) => array.buffer as ArrayBuffer);
}
