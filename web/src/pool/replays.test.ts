import { expect, it } from "vitest";
import type { ReplayCourse, ReplayedJob, ReplayResult } from "../api/replayQueries";
import {
  comparedIndex,
  courseName,
  figuresOf,
  firstPolicies,
  movedJobs,
  periodOf,
  policiesOf,
  policiesText,
  policyMeaning,
  tone,
  verdict,
  waitDifference,
} from "./replays";

const course = (name: string, mean: number | null, more: Partial<ReplayCourse> = {}): ReplayCourse => ({
  name,
  jobs: 2,
  unfinished: 0,
  mean_wait_s: mean,
  median_wait_s: mean,
  p90_wait_s: mean,
  max_wait_s: mean,
  makespan_s: 100,
  utilization_pct: 50,
  evictions: 0,
  allocated: [],
  waiting: [],
  waits_s: [],
  ...more,
});

const job = (id: string, ...waits: (number | null)[]): ReplayedJob => ({
  id,
  name: "",
  user: "alice",
  queue: "default",
  gpus: 1,
  submitted_at: 0,
  runs: waits.map((wait_s) => ({ started_at: wait_s, ended_at: wait_s, wait_s })),
});

const result = (courses: ReplayCourse[], jobs: ReplayedJob[] = []): ReplayResult => ({
  since: 0,
  step_s: 1,
  gpus: 4,
  base: courses.length > 2 ? 1 : 0,
  courses,
  users: [],
  queues: [],
  jobs,
  left_out: 0,
});

it("reads up to four policies of an address, each once", () => {
  expect(policiesOf("configured, sjf,,sjf,fcfs/none")).toEqual(["configured", "sjf", "fcfs/none"]);
  expect(policiesOf("a,b,c,d,e")).toHaveLength(4);
  expect(policiesText(" , ")).toBeUndefined();
});

it("names policies as a person reads them", () => {
  expect(courseName("recorded")).toBe("as it was");
  expect(courseName("configured")).toBe("as configured");
  expect(courseName("fcfs/none")).toBe("fcfs, no backfill");
  expect(courseName("fcfs/easy")).toBe("fcfs, easy backfill");
  expect(policyMeaning("configured", ["priority", "las"])).toBe("as configured (priority, las)");
  expect(policyMeaning("of-the-site", [])).toBe("of-the-site");
});

it("takes the last days, or whole days from one to another", () => {
  expect(periodOf({}, 1_000_000.7)).toEqual({ since: 1_000_000 - 604_800 });
  expect(periodOf({ range: "24h" }, 1_000_000)).toEqual({ since: 1_000_000 - 86_400 });
  const [from, after] = [new Date(2026, 2, 1).getTime() / 1000, new Date(2026, 2, 4).getTime() / 1000];
  expect(periodOf({ from: "2026-03-01", to: "2026-03-03" }, after + 9)).toEqual({
    since: from,
    until: after,
  });
  expect(periodOf({ from: "2026-03-01", to: "2026-03-03" }, after - 9)).toEqual({ since: from });
  expect(periodOf({ from: "2026-03-01" }, after)).toEqual({ since: from });
});

it("says a difference in words, and colours what they say", () => {
  expect(waitDifference(60, 180)).toBe("2m shorter");
  expect(waitDifference(180, 60)).toBe("2m longer");
  expect(waitDifference(60, 60.4)).toBe("as long");
  expect(waitDifference(null, 60)).toBe("");
  expect([tone(1, 9), tone(9, 1), tone(9, 9), tone(null, 9)]).toEqual(["good", "bad", undefined, undefined]);
});

it("leaves out figures that are nothing everywhere", () => {
  const names = (courses: ReplayCourse[]) => figuresOf(courses).map((figure) => figure.name);
  expect(names([course("sjf", 1)])).not.toContain("Evictions");
  expect(names([course("sjf", 1), course("las", 1, { evictions: 3, unfinished: 1 })])).toEqual(
    expect.arrayContaining(["Evictions", "Did not end"]),
  );
  const shown = figuresOf([course("recorded", null, { evictions: null })])[0];
  expect(shown?.value(course("recorded", null))).toBe("–");
});

it("compares fair share at first, or another policy where the site has that alone", () => {
  expect(firstPolicies(["priority"])).toEqual(["configured", "fair-share"]);
  expect(firstPolicies(["fair-share", "priority"])).toEqual(["configured", "fair-share"]);
  expect(firstPolicies(["fair-share"])).toEqual(["configured", "sjf"]);
});

it("compares the policy under which jobs wait least with the base where no other is asked for", () => {
  const waits = { recorded: 1, configured: 9, sjf: 5, las: 7 };
  const best = result(Object.entries(waits).map(([name, mean]) => course(name, mean)));
  expect(comparedIndex(best, undefined)).toBe(2);
  expect(comparedIndex(result(["recorded", "configured"].map((name) => course(name, 1))), undefined)).toBe(1);
});

it("compares the last policy of several that are alike, and the one that is asked for", () => {
  const four = result(["recorded", "configured", "sjf", "las"].map((name) => course(name, 1)));
  expect(comparedIndex(four, undefined)).toBe(3);
  expect(comparedIndex(four, "sjf")).toBe(2);
  expect(comparedIndex(four, "recorded")).toBe(0);
  expect(comparedIndex(four, "configured")).toBe(3);
  expect(comparedIndex(four, "nothing")).toBe(3);
});

it("has the jobs that move furthest first, and none that does not move", () => {
  const jobs = [
    job("1", 0, 50, 10),
    job("2", 0, 50, 90),
    job("3", 0, 50, 50),
    job("4", 0, 50, 5),
    job("5", 0, 9, null),
  ];
  const moved = movedJobs(
    result(
      ["recorded", "configured", "sjf"].map((name) => course(name, 1)),
      jobs,
    ),
    2,
  );
  expect(moved.sooner.map((each) => each.job.id)).toEqual(["4", "1"]);
  expect(moved.later.map((each) => each.job.id)).toEqual(["2"]);
});

it("says in a sentence who waits less", () => {
  const said = (base: number | null, here: number | null) =>
    verdict(result([course("recorded", base), course("sjf", here)]), 1);
  expect(said(200, 80)).toBe("On average jobs wait 2m (60 %) shorter under “sjf” than under “as it was”.");
  expect(said(0, 60)).toBe("On average jobs wait 1m longer under “sjf” than under “as it was”.");
  expect(said(5, 5)).toContain("as long");
  expect(said(null, 5)).toBe("");
});
