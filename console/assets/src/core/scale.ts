// Buckets whose bounds grow by the same factor: a millisecond and an hour fit into one chart. Pure.

/** A Scale divides the durations from lowest on into count buckets, perDecade of them for each power of ten. */
export interface Scale {
  lowest: number; // milliseconds
  perDecade: number;
  count: number;
}

/** The scale of all charts: 0.1 ms to 10^8 ms, a little more than a day, ten buckets a decade. */
export const scale: Scale = { lowest: 0.1, perDecade: 10, count: 90 };

/** bucket is where a duration belongs; what is shorter or longer than the scale is in the first or the last one. */
export function bucket(s: Scale, ms: number): number {
  if (!(ms > s.lowest)) return 0;
  return Math.min(s.count - 1, Math.floor(Math.log10(ms / s.lowest) * s.perDecade + 1e-9));
}

/** lower is the lower bound of a bucket, in milliseconds; that of the next one is its upper bound. */
export function lower(s: Scale, n: number): number {
  return s.lowest * 10 ** (n / s.perDecade);
}
