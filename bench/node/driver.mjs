// Runs graphile-worker or pg-boss as the bench tells it: requests come as lines of JSON on standard input, answers and news of the
// worker go to standard output (bench/remote.go has the fields).
//
//   node driver.mjs ENGINE VARIANT URL POOL
import { createInterface } from "node:readline";

import { GraphileWorker } from "./graphile-worker.mjs";
import { Boss } from "./pg-boss.mjs";

const [engine, variant, url, pool] = process.argv.slice(2);
const payloadBytes = 100;
const newsEvery = 5; // milliseconds

const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");

// payload is 100 bytes long as JSON, like those of the other engines.
function payload(stamp) {
  const empty = JSON.stringify(stamp ? { at: stamp, padding: "" } : { padding: "" });
  const padding = "x".repeat(payloadBytes - empty.length);
  return stamp ? { at: stamp, padding } : { padding };
}

// news is what the worker has done, told at most every 5 ms: a line for each job would measure the pipe.
const news = {
  done: 0,
  started: [],
  timer: null,
  tell() {
    this.timer ??= setTimeout(() => this.flush(), newsEvery);
  },
  flush() {
    clearTimeout(this.timer);
    this.timer = null;
    say({ done: this.done, started: this.started });
    this.started = [];
  },
};

// handlers is what the drivers call. Times are in microseconds since 1970.
const handlers = {
  report: false,
  block: false,
  async begin(data) {
    if (this.report) {
      news.started.push([data?.at ?? 0, Math.round((performance.timeOrigin + performance.now()) * 1000)]);
      news.tell();
    }
    if (this.block) await new Promise(() => {});
  },
  end(jobs) {
    news.done += jobs;
    news.tell();
  },
};

// singly enqueues jobs one by one from several producers and answers how many seconds that took.
async function singly(driver, producers, jobs) {
  let left = jobs;
  const begin = performance.now();
  await Promise.all(
    Array.from({ length: producers }, async () => {
      while (left-- > 0) await driver.enqueue(payload(0), {});
    }),
  );
  return (performance.now() - begin) / 1000;
}

async function answer(driver, ask) {
  switch (ask.do) {
    case "fill":
      for (let left = ask.jobs; left > 0; left -= driver.batch) {
        await driver.fill(Array.from({ length: Math.min(left, driver.batch) }, () => payload(0)));
      }
      return 0;
    case "enqueue":
      await driver.enqueue(payload(ask.stamp), { due: ask.due ? new Date(ask.due / 1000) : undefined, queue: ask.queue });
      return 0;
    case "singly":
      return singly(driver, ask.producers, ask.jobs);
    case "work":
      handlers.report = ask.report ?? false;
      handlers.block = ask.block ?? false;
      news.done = 0;
      await driver.work({ queues: ask.queues ?? ["noop"], handlers: ask.handlers });
      return 0;
    case "stop":
      if (!handlers.block) await driver.stop(); // what never returns ends with this process
      news.flush();
      return 0;
    case "usage": {
      const used = process.cpuUsage();
      return (used.user + used.system) / 1e6;
    }
    default:
      throw new Error(`there is no request ${ask.do}`);
  }
}

const Driver = { "graphile-worker": GraphileWorker, "pg-boss": Boss }[engine];
try {
  const driver = new Driver({ url, pool: Number(pool), tuned: variant === "tuned", handlers });
  await driver.open();
  say({ ready: true });
  for await (const line of createInterface({ input: process.stdin })) {
    const ask = JSON.parse(line);
    answer(driver, ask).then(
      (value) => say({ id: ask.id, value }),
      (error) => say({ id: ask.id, error: String(error?.message ?? error) }),
    );
  }
  if (!handlers.block) await driver.close();
} catch (error) {
  say({ error: String(error?.message ?? error) });
}
process.exit(0);
