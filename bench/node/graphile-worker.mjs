// graphile-worker by its library mode. A queue of the bench is a task here: its named queues run one job at a time.
import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import pg from "pg";

// The tuned settings are those of its page on performance: a local queue that fetches many jobs at once, and completions in batches.
const tuned = {
  concurrentJobs: 24,
  pollInterval: 100,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
};

export class GraphileWorker {
  batch = 1000;

  constructor({ url, pool, tuned: fast, handlers }) {
    this.fast = fast;
    this.handlers = handlers;
    this.size = pool;
    this.pool = new pg.Pool({ connectionString: url, max: pool });
    this.pool.on("error", () => {}); // the database is dropped under it
    this.pool.on("connect", (client) => client.on("error", () => {}));
    this.logger = new Logger(() => () => {});
  }

  async open() {
    await runMigrations({ pgPool: this.pool, logger: this.logger });
    this.utils = await makeWorkerUtils({ pgPool: this.pool, logger: this.logger });
  }

  async fill(payloads) {
    await this.utils.addJobs(payloads.map((payload) => ({ identifier: "noop", payload })));
  }

  async enqueue(payload, { due, queue }) {
    await this.utils.addJob(queue || "noop", payload, due ? { runAt: due } : {});
  }

  async work({ queues, handlers }) {
    const worker = { maxPoolSize: this.size, ...(this.fast ? tuned : {}) };
    if (handlers) worker.concurrentJobs = handlers;
    if (worker.localQueue) worker.localQueue = { size: Math.max(worker.localQueue.size, worker.concurrentJobs) };
    const task = (payload) => this.handlers.begin(payload);
    this.runner = await run({
      pgPool: this.pool,
      logger: this.logger,
      noHandleSignals: true,
      parsedCronItems: [],
      taskList: Object.fromEntries(queues.map((name) => [name, task])),
      preset: { worker },
    });
    this.runner.events.on("job:success", () => this.handlers.end(1)); // before the completion is stored
  }

  async stop() {
    await this.runner?.stop();
    this.runner = undefined;
  }

  async close() {
    await this.stop();
    await this.utils.release();
    await this.pool.end();
  }
}
