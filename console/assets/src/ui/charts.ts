// The charts and tables of a report.

import { outcomes } from "../core/columns.js";
import { SLICES, type Group, type Measure, type Numbers, type Report } from "../core/report.js";
import { lower, scale } from "../core/scale.js";
import { clock, count, percent, span } from "../core/words.js";
import { make, fillTable, type ChartSpec, type Table } from "./chart.js";
import { courses, heat, histogram, used } from "./draw.js";

const bounds = (n: number): string => `${span(lower(scale, n))} to ${span(lower(scale, n + 1))}`;

function sentence(numbers: Numbers): string {
  return numbers.known === 0 ? "Nothing is known." : `Of ${count(numbers.known)} attempts half took no longer than ${span(numbers.p50)}, 95 % no longer than ${span(numbers.p95)}, the longest ${span(numbers.max)}.`;
}

function histogramOf(id: string, what: string, measure: Measure): ChartSpec {
  const range = used(measure);
  const cells = (n: number): string[] => [bounds(n), count(measure.good[n] as number), count(measure.bad[n] as number)];
  return {
    id: `${id}-histogram`,
    title: `${what}: how many took how long`,
    hint: `p50 ${span(measure.numbers.p50)} · p95 ${span(measure.numbers.p95)} · p99 ${span(measure.numbers.p99)} · max ${span(measure.numbers.max)}`,
    summary: sentence(measure.numbers),
    legend: [["key-1", "succeeded, cancelled"], ["key-bad", "retried, failed, dead"]],
    first: range.first,
    last: range.last,
    draw: (paper, cursor) => histogram(paper, measure, cursor),
    describe: (n) => `${bounds(n)}: ${count(measure.good[n] as number)} succeeded or cancelled, ${count(measure.bad[n] as number)} failed`,
    table: () => ({ head: [what, "Succeeded, cancelled", "Retried, failed, dead"], rows: places(range.first, range.last).map(cells) }),
  };
}

const places = (first: number, last: number): number[] => Array.from({ length: last - first + 1 }, (_, n) => first + n);

function sliceStart(report: Report, n: number): string {
  return clock(report.from + ((report.to - report.from) * n) / SLICES, report.to - report.from);
}

function coursesOf(id: string, what: string, measure: Measure, report: Report): ChartSpec {
  const values = (n: number): number[] => measure.courses.map((course) => course[n] as number);
  return {
    id: `${id}-courses`,
    title: `${what}: percentiles over time`,
    hint: "Each point is a sixtieth of the time. Times are in UTC.",
    summary: sentence(measure.numbers),
    legend: [["key-1", "p50"], ["key-3", "p95"], ["key-4", "p99"]],
    first: 0,
    last: SLICES - 1,
    draw: (paper, cursor) => courses(paper, measure, report.from, report.to, cursor),
    describe: (n) => {
      const [p50, p95, p99] = values(n).map(span);
      return `From ${sliceStart(report, n)} UTC: p50 ${p50 ?? ""}, p95 ${p95 ?? ""}, p99 ${p99 ?? ""}, of ${count(report.perSlice[n] as number)} attempts`;
    },
    table: () => ({ head: ["From (UTC)", "p50", "p95", "p99", "Attempts"], rows: places(0, SLICES - 1).map((n) => [sliceStart(report, n), ...values(n).map(span), count(report.perSlice[n] as number)]) }),
  };
}

function heatOf(id: string, what: string, measure: Measure, report: Report): ChartSpec {
  const cell = (slice: number, n: number): number => measure.heat[slice * scale.count + n] as number;
  const range = used(measure);
  const decades: number[] = [];
  for (let n = Math.floor(range.first / 10) * 10; n <= range.last; n += 10) decades.push(n);
  const inDecade = (slice: number, from: number): number => places(from, Math.min(from + 9, scale.count - 1)).reduce((sum, n) => sum + cell(slice, n), 0);
  const describe = (slice: number): string => {
    const fullest = places(range.first, range.last).reduce((best, n) => (cell(slice, n) > cell(slice, best) ? n : best), range.first);
    const here = cell(slice, fullest);
    return `From ${sliceStart(report, slice)} UTC: ${here === 0 ? "nothing" : `most took ${bounds(fullest)} (${count(here)} attempts)`}`;
  };
  return {
    id: `${id}-heat`,
    title: `${what}: heat map`,
    hint: "The denser, the more attempts ended then and had taken so long. Times are in UTC.",
    summary: sentence(measure.numbers),
    first: 0,
    last: SLICES - 1,
    draw: (paper, cursor) => heat(paper, measure, report.from, report.to, cursor),
    describe,
    table: () => ({
      head: ["From (UTC)", ...decades.map((n) => `${span(lower(scale, n))} to ${span(lower(scale, n + 10))}`)],
      rows: places(0, SLICES - 1).map((slice) => [sliceStart(report, slice), ...decades.map((n) => count(inDecade(slice, n)))]),
    }),
  };
}

/** specsOf are the six charts of a report, in the order in which they stand. */
export function specsOf(report: Report): ChartSpec[] {
  const sides: [string, string, Measure][] = [["run", "Run", report.run], ["wait", "Wait", report.wait]];
  return [
    ...sides.map(([id, what, measure]) => histogramOf(id, what, measure)),
    ...sides.map(([id, what, measure]) => coursesOf(id, what, measure, report)),
    ...sides.map(([id, what, measure]) => heatOf(id, what, measure, report)),
  ];
}

function groupsTable(head: string, groups: Group[]): Table {
  return {
    head: [head, "Attempts", "Failed", "Wait p50", "Wait p95", "Run p50", "Run p95", "Run p99", "Run max"],
    rows: groups.map((one) => [
      one.name, count(one.count), `${count(one.bad)} (${percent(one.count === 0 ? 0 : one.bad / one.count)})`,
      span(one.wait.p50), span(one.wait.p95), span(one.run.p50), span(one.run.p95), span(one.run.p99), span(one.run.max),
    ]),
  };
}

/** tablesOf are the tables by queue and by kind. */
export function tablesOf(report: Report): HTMLElement[] {
  const tables: [string, string, Group[]][] = [["By kind", "Kind", report.kinds], ["By queue", "Queue", report.queues]];
  return tables
    .filter(([, , groups]) => groups.length > 1)
    .map(([title, head, groups]) => {
      const figure = make("figure", "chart wide");
      const caption = make("figcaption");
      caption.append(make("h3", "", title));
      figure.append(caption, fillTable(title, groupsTable(head, groups)));
      return figure;
    });
}

/** outcomesIn says how the attempts ended. */
export function outcomesIn(report: Report): string {
  return outcomes
    .map((name, n) => [name, report.byOutcome[n] as number] as const)
    .filter(([, n]) => n > 0)
    .map(([name, n]) => `${count(n)} ${name}`)
    .join(", ");
}
