// Watches the frames of this page while something runs: the dot moves with each, and stands where there is none.

import { framesOf, type Frames } from "../core/frames.js";

const CALM = 30;

/** Pulse is one observation. */
export class Pulse {
  private gaps: number[] = [];
  private last = 0;
  private stopped = false;

  constructor(private readonly dot: Element) {}

  private readonly frame = (at: number): void => {
    if (this.stopped) return;
    if (this.last > 0) this.gaps.push(at - this.last);
    this.last = at;
    const share = (at % 1600) / 1600;
    this.dot.setAttribute("cx", (8 + 584 * (share < 0.5 ? 2 * share : 2 - 2 * share)).toFixed(1));
    requestAnimationFrame(this.frame);
  };

  /** during runs a piece of work between some calm frames, and says what it did to those meanwhile. */
  async during<T>(work: () => Promise<T>): Promise<{ value: T; frames: Frames; gaps: number[] }> {
    requestAnimationFrame(this.frame);
    await framesPass(CALM);
    const calm = this.gaps;
    this.gaps = [];
    try {
      const value = await work();
      await framesPass(3); // the gap of what blocked ends with the next frame
      return { value, frames: framesOf(calm, this.gaps), gaps: this.gaps };
    } finally {
      this.stopped = true;
    }
  }
}

async function framesPass(count: number): Promise<void> {
  for (let n = 0; n < count; n++) await new Promise(requestAnimationFrame);
}
