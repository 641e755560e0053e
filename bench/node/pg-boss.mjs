// pg-boss by work(), which completes a batch when its handler has returned.
import { PgBoss } from "pg-boss";

// The tuned settings: large batches, the next at once while they come back full, and a notification for what is sent to an idle queue. No
// notification comes when a scheduled job becomes due, and beside notifications it polls every 30 s unless it is told to do so more often.
const tuned = {
  batchSize: 1000,
  localConcurrency: 2,
  burstWhenBatchFull: true,
  pollingIntervalSeconds: 0.5,
  notifyPollingIntervalSeconds: 0.5,
};

export class Boss {
  batch = 5000;

  constructor({ url, pool, tuned: fast, handlers }) {
    this.fast = fast;
    this.handlers = handlers;
    this.boss = new PgBoss({ connectionString: url, max: pool, useListenNotify: fast });
    this.boss.on("error", () => {}); // the database is dropped under it; what a request meets is answered
    this.queues = [];
  }

  async open() {
    await this.boss.start();
    await this.queue("noop");
  }

  async queue(name) {
    if (!(await this.boss.getQueue(name))) await this.boss.createQueue(name, this.fast ? { notify: true } : {});
  }

  async fill(payloads) {
    await this.boss.insert("noop", payloads.map((data) => ({ data })));
  }

  async enqueue(payload, { due, queue }) {
    const id = await this.boss.send(queue || "noop", payload, due ? { startAfter: due } : {});
    if (!id) throw new Error("the job was not sent");
  }

  async work({ queues, handlers }) {
    const options = { ...(this.fast ? tuned : {}) };
    // A batch's handlers run at the same time. One that keeps its job would keep the batch from being filled up, so each gets a worker then.
    if (handlers) Object.assign(options, this.handlers.block ? { batchSize: 1, localConcurrency: handlers } : { batchSize: handlers, localConcurrency: 1 });
    this.queues = queues;
    for (const name of queues) {
      await this.queue(name);
      await this.boss.work(name, options, async (jobs) => {
        await Promise.all(jobs.map((job) => this.handlers.begin(job.data)));
        this.handlers.end(jobs.length); // before the completion is stored
      });
    }
  }

  async stop() {
    for (const name of this.queues) await this.boss.offWork(name, { wait: true });
    this.queues = [];
  }

  async close() {
    await this.boss.stop({ graceful: true, close: true });
  }
}
