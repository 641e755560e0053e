// Which boxes a shift-click covers. Pure.

/** between lists the positions from one to the other, both included, in ascending order. */
export function between(a: number, b: number): number[] {
  const positions: number[] = [];
  for (let n = Math.min(a, b); n <= Math.max(a, b); n++) positions.push(n);
  return positions;
}

/** move is the row that a step from current leads to, of count rows; -1 is none, and the ends hold. */
export function move(current: number, step: number, count: number): number {
  if (count === 0) return -1;
  if (current < 0) return step > 0 ? 0 : count - 1;
  return Math.min(count - 1, Math.max(0, current + step));
}
