// Numbers and durations in words, for charts and tables. Pure.

/** count is a number with its thousands apart. */
export function count(n: number): string {
  return Math.round(n).toLocaleString("en-US");
}

/** span is a number of milliseconds in a unit that suits it, to two or three digits; a dash where it is not known. */
export function span(ms: number): string {
  if (Number.isNaN(ms)) return "–";
  const units: [string, number, number][] = [
    ["µs", 0.001, 1],
    ["ms", 1, 1_000],
    ["s", 1_000, 60_000],
    ["min", 60_000, 3_600_000],
    ["h", 3_600_000, 172_800_000],
    ["d", 86_400_000, Infinity],
  ];
  if (ms === 0) return "0 ms";
  for (const [name, size, below] of units) {
    const value = ms / size;
    const digits = value < 9.95 && name !== "µs" ? 1 : 0;
    if (Number((value).toFixed(digits)) * size < below || below === Infinity) return `${value.toFixed(digits).replace(/\.0$/, "")} ${name}`;
  }
  return "–";
}

/** percent is a share in per cent. */
export function percent(share: number): string {
  const value = share * 100;
  return `${value > 0 && value < 10 ? value.toFixed(1) : value.toFixed(0)} %`;
}

/** clock is an instant in UTC, as everywhere in the console; with the day where the span is longer than one. */
export function clock(at: number, spanMs: number): string {
  const date = new Date(at);
  const two = (n: number): string => String(n).padStart(2, "0");
  const time = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
  if (spanMs < 600_000) return `${time}:${two(date.getUTCSeconds())}`;
  return spanMs > 20 * 3_600_000 ? `${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())} ${time}` : time;
}
