// How long the main thread was kept busy at a stretch.

/** LongTasks watches for tasks above 50 ms, as far as the browser tells them. */
export class LongTasks {
  private readonly seen: { start: number; end: number }[] = [];
  private observer: PerformanceObserver | undefined;

  start(): void {
    if (!(PerformanceObserver.supportedEntryTypes ?? []).includes("longtask")) return;
    this.observer = new PerformanceObserver((list) => this.take(list.getEntries()));
    this.observer.observe({ type: "longtask" });
  }

  private take(entries: PerformanceEntryList): void {
    for (const entry of entries) this.seen.push({ start: entry.startTime, end: entry.startTime + entry.duration });
  }

  /** longest is the duration of the longest one that was under way between two times of performance.now(), 0 if none was. */
  longest(from: number, to: number): number {
    return this.seen.filter((task) => task.end > from && task.start < to).reduce((most, task) => Math.max(most, task.end - task.start), 0);
  }

  /** stop ends the watch. Tasks are told a little later than they end, so it waits for the next turn. */
  async stop(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 0));
    this.take(this.observer?.takeRecords() ?? []);
    this.observer?.disconnect();
    this.observer = undefined;
  }
}
