// What frames were missed, of the times between those that were drawn. Pure.

export interface Frames {
  drawn: number;
  dropped: number;
  longest: number; // milliseconds between two frames
  period: number; // of the display
}

/** framesOf counts a gap of n periods as n - 1 frames that were dropped. The period is the median of the calm gaps before the work. */
export function framesOf(calm: number[], gaps: number[]): Frames {
  const sorted = calm.slice().sort((a, b) => a - b);
  const period = sorted[Math.floor(sorted.length / 2)] ?? 1000 / 60;
  let dropped = 0;
  let longest = 0;
  for (const gap of gaps) {
    dropped += Math.max(0, Math.round(gap / period) - 1);
    longest = Math.max(longest, gap);
  }
  return { drawn: gaps.length, dropped, longest, period };
}
