// Exact quantiles: sorted, and the nearest rank. Pure. Sorting a typed array compares numbers, and takes a million in well
// under a second.

/** quantile is the smallest value that at least a share q of the sorted values does not exceed; NaN of none. */
export function quantile(sorted: ArrayLike<number>, q: number): number {
  if (sorted.length === 0) return NaN;
  const rank = Math.min(sorted.length - 1, Math.max(0, Math.ceil(q * sorted.length) - 1));
  return sorted[rank] ?? NaN;
}

/** Groups are the known values of each group, sorted, one after the other. */
export interface Groups {
  values: Float32Array;
  starts: Uint32Array; // groups + 1 of them
}

/**
 * grouped sorts values by group and size. groups[n] is the group of values[n]; what is NaN, or in no group below count, is
 * left out. It counts first and then deals out, so nothing grows on the way.
 */
export function grouped(values: Float32Array, groups: ArrayLike<number>, count: number): Groups {
  const starts = new Uint32Array(count + 1);
  for (let n = 0; n < values.length; n++) {
    const group = groups[n] as number;
    if (group < count && !Number.isNaN(values[n] as number)) starts[group + 1] = (starts[group + 1] as number) + 1;
  }
  for (let group = 0; group < count; group++) starts[group + 1] = (starts[group + 1] as number) + (starts[group] as number);
  const next = starts.slice(0, count);
  const dealt = new Float32Array(starts[count] as number);
  for (let n = 0; n < values.length; n++) {
    const group = groups[n] as number;
    const value = values[n] as number;
    if (group >= count || Number.isNaN(value)) continue;
    const place = next[group] as number;
    dealt[place] = value;
    next[group] = place + 1;
  }
  for (let group = 0; group < count; group++) dealt.subarray(starts[group], starts[group + 1]).sort();
  return { values: dealt, starts };
}

/** of is the sorted values of one group. */
export function of(groups: Groups, n: number): Float32Array {
  return groups.values.subarray(groups.starts[n], groups.starts[n + 1]);
}
