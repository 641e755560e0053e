// How long to wait between two refreshes of a page. Pure.

/** The pace while all is well, and the longest wait while it is not, in milliseconds. */
export const PACE = 1_000;
export const LONGEST = 30_000;

/**
 * wait is the pause before the next try after so many failures in a row: the pace, doubled with each, up to LONGEST, and up
 * to a fifth shorter at random, so that a hundred tabs do not come back in the same instant. chance is in [0, 1).
 */
export function wait(failures: number, chance: number, pace: number = PACE): number {
  if (failures <= 0) return pace;
  const full = Math.min(LONGEST, pace * 2 ** Math.min(failures, 16));
  return Math.round(full * (1 - 0.2 * chance));
}
