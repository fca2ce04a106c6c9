/** What is run again, as an address has it, and what came of it, in words and in the order in which it is shown. */
import type { ReplayCourse, ReplayedJob, ReplayResult } from "../api/replayQueries";
import { duration } from "../format/times";
import { percent, UNKNOWN } from "../format/units";
import { REPORT_RANGE_S, type ReportRange } from "./choices";

export const CONFIGURED = "configured";
export const RECORDED = "recorded";
export const MOST_POLICIES = 4;
export const FIRST_RANGE: ReportRange = "7d";
export const DATE = /^\d{4}-\d{2}-\d{2}$/;

const MOST_JOBS_SHOWN = 15;

const MEANINGS: Record<string, string> = {
  fcfs: "first come, first served",
  priority: "by priority",
  "priority-ageing": "by priority, which grows with the wait",
  "fair-share": "least use first",
  sjf: "shortest job first",
  saf: "smallest job first, in GPU-hours",
  slowdown: "short and small jobs first",
  las: "least served first, in time slices",
  corral: "short and small jobs first, with ageing",
  "corral-sharing": "as corral, in time slices",
};

/** The policies of "a,b/none", each once, at most four. */
export function policiesOf(text: string | undefined): string[] {
  const names = (text ?? "").split(",").map((name) => name.trim());
  return [...new Set(names.filter(Boolean))].slice(0, MOST_POLICIES);
}

export function policiesText(text: string | undefined): string | undefined {
  return policiesOf(text).join(",") || undefined;
}

/** What is compared at first: what the site has with fair share, or with another policy where it has that already. */
export function firstPolicies(configured: readonly string[]): string[] {
  return [CONFIGURED, configured.every((policy) => policy === "fair-share") ? "sjf" : "fair-share"];
}

/** A policy as it is chosen: by its name and what it means. */
export function policyMeaning(name: string, configured: readonly string[]): string {
  if (name === CONFIGURED) return `as configured (${configured.join(", ")})`;
  return MEANINGS[name] ? `${name}: ${MEANINGS[name]}` : name;
}

/** A course as it is headed. */
export function courseName(name: string): string {
  if (name === CONFIGURED) return "as configured";
  if (name === RECORDED) return "as it was";
  const [policy, backfill] = name.split("/");
  if (backfill === undefined) return name;
  return `${policy}, ${backfill === "none" ? "no" : backfill} backfill`;
}

/** The period of an address in Unix seconds: the days from `from` to `to`, both whole, else the last days. */
export function periodOf(
  search: { range?: ReportRange; from?: string; to?: string },
  nowS: number,
): { since: number; until?: number } {
  const from = search.from ? midnightS(search.from, 0) : null;
  if (from === null) return { since: Math.floor(nowS) - REPORT_RANGE_S[search.range ?? FIRST_RANGE] };
  const to = search.to ? midnightS(search.to, 1) : null;
  return to === null || to >= nowS ? { since: from } : { since: from, until: to };
}

/** When a day of this browser's time zone begins, or one that is so many days later. */
function midnightS(day: string, later: number): number | null {
  const [year, month, date] = day.split("-").map(Number);
  const at = new Date(year ?? 0, (month ?? 1) - 1, (date ?? 1) + later).getTime();
  return Number.isNaN(at) ? null : Math.floor(at / 1000);
}

/** A wait against another: "12m shorter", "as long". */
export function waitDifference(wait: number | null, base: number | null): string {
  if (wait === null || base === null) return "";
  const by = wait - base;
  if (Math.abs(by) < 1) return "as long";
  return `${duration(Math.abs(by))} ${by < 0 ? "shorter" : "longer"}`;
}

/** Better, worse or neither, for the colour that repeats the words. */
export function tone(value: number | null, base: number | null): "good" | "bad" | undefined {
  if (value === null || base === null || Math.abs(value - base) < 1) return undefined;
  return value < base ? "good" : "bad";
}

export interface Figure {
  name: string;
  value: (course: ReplayCourse) => string;
  /** In seconds, where it is a wait, so that less is better. */
  waitS?: (course: ReplayCourse) => number | null;
}

const waited = (name: string, of: (course: ReplayCourse) => number | null): Figure => ({
  name,
  value: (course) => duration(of(course)),
  waitS: of,
});

/** The figures that are shown of these courses; what is nothing in all of them is left out. */
export function figuresOf(courses: readonly ReplayCourse[]): Figure[] {
  const figures: Figure[] = [
    waited("Mean wait", (course) => course.mean_wait_s),
    waited("Median wait", (course) => course.median_wait_s),
    waited("Wait, 90th percentile", (course) => course.p90_wait_s),
    waited("Longest wait", (course) => course.max_wait_s),
    { name: "GPUs allocated", value: (course) => percent(course.utilization_pct) },
    { name: "Until the last end", value: (course) => duration(course.makespan_s) },
    { name: "Jobs", value: (course) => course.jobs.toLocaleString() },
  ];
  if (courses.some((course) => course.evictions))
    figures.push({
      name: "Evictions",
      value: (course) => course.evictions?.toLocaleString() ?? UNKNOWN,
    });
  if (courses.some((course) => course.unfinished))
    figures.push({ name: "Did not end", value: (course) => course.unfinished.toLocaleString() });
  return figures;
}

/** Which course is compared with the base: the one that is asked for, else the policy under which jobs wait least. */
export function comparedIndex(result: ReplayResult, name: string | undefined): number {
  const asked = result.courses.findIndex((course) => course.name === name);
  if (asked >= 0 && asked !== result.base) return asked;
  const wait = (at: number) => result.courses[at]?.mean_wait_s ?? Number.POSITIVE_INFINITY;
  return result.courses.reduce(
    (best, course, at) =>
      at !== result.base && course.name !== RECORDED && wait(at) < wait(best) ? at : best,
    result.courses.length - 1,
  );
}

export interface Moved {
  job: ReplayedJob;
  baseS: number;
  hereS: number;
}

/** The jobs that wait shorter in a course than in the base, and those that wait longer, furthest first. */
export function movedJobs(result: ReplayResult, at: number): { sooner: Moved[]; later: Moved[] } {
  const moved = result.jobs.flatMap((job): Moved[] => {
    const baseS = job.runs[result.base]?.wait_s;
    const hereS = job.runs[at]?.wait_s;
    return baseS == null || hereS == null || Math.abs(hereS - baseS) < 1 ? [] : [{ job, baseS, hereS }];
  });
  moved.sort((one, other) => one.hereS - one.baseS - (other.hereS - other.baseS));
  const sooner = moved.filter(({ baseS, hereS }) => hereS < baseS);
  const later = moved.filter(({ baseS, hereS }) => hereS > baseS).reverse();
  return { sooner: sooner.slice(0, MOST_JOBS_SHOWN), later: later.slice(0, MOST_JOBS_SHOWN) };
}

/** In one sentence: who waits how much less or more. */
export function verdict(result: ReplayResult, at: number): string {
  const [base, here] = [result.courses[result.base], result.courses[at]];
  if (!base || !here || base.mean_wait_s == null || here.mean_wait_s == null) return "";
  const [name, other] = [courseName(here.name), courseName(base.name)];
  const by = here.mean_wait_s - base.mean_wait_s;
  if (Math.abs(by) < 1) return `On average jobs wait as long under “${name}” as under “${other}”.`;
  const part = base.mean_wait_s >= 1 ? ` (${percent((100 * Math.abs(by)) / base.mean_wait_s)})` : "";
  return `On average jobs wait ${duration(Math.abs(by))}${part} ${by < 0 ? "shorter" : "longer"} under “${name}” than under “${other}”.`;
}
