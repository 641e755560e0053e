// How long the main thread was kept busy at a stretch.

/** LongTasks watches for tasks above 50 ms, as far as the browser tells them. */
export class LongTasks {
  longest = 0;
  count = 0;
  private observer: PerformanceObserver | undefined;

  start(): void {
    if (!(PerformanceObserver.supportedEntryTypes ?? []).includes("longtask")) return;
    this.observer = new PerformanceObserver((list) => this.take(list.getEntries()));
    this.observer.observe({ type: "longtask" });
  }

  private take(entries: PerformanceEntryList): void {
    for (const entry of entries) {
      this.count++;
      this.longest = Math.max(this.longest, entry.duration);
    }
  }

  stop(): void {
    this.take(this.observer?.takeRecords() ?? []);
    this.observer?.disconnect();
    this.observer = undefined;
  }
}
