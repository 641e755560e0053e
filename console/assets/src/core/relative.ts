// Times in words, exactly as the server writes them (page_funcs.go: ago, coarse), so that a page reads the same whoever wrote
// it last. Pure.

/** coarse is a number of milliseconds in its largest unit. */
export function coarse(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3_600) return `${Math.floor(seconds / 3_600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** relative says where an instant lies from now, both in milliseconds. */
export function relative(at: number, now: number): string {
  const distance = now - at;
  if (distance >= 1000) return `${coarse(distance)} ago`;
  if (distance <= -1000) return `in ${coarse(-distance)}`;
  return "just now";
}

/** isRelative tells words of this kind from a time that is written out. */
export function isRelative(text: string): boolean {
  return /^(just now|in \d+ (s|min|h|d)|\d+ (s|min|h|d) ago)$/.test(text.trim());
}
