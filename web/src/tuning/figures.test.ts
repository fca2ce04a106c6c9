import { expect, it } from "vitest";
import type { Experiment } from "../api/taskQueries";
import { comparedFigures, comparedParameters } from "./compared";
import {
  figureText,
  gpusText,
  objectiveOf,
  onSeveralModels,
  scorePoints,
  scoreText,
  variedParameters,
} from "./figures";
import { courseOf, levelsOf, monitoringOf, numbersOf } from "./levels";

const row = (number: number, score: number | null, parameters = {}): Experiment => ({
  id: String(100 + number),
  task_id: "1",
  experiment_id: number,
  parameters,
  status: score === null ? "failed" : "success",
  job_id: null,
  objective_score: score,
  gpus: 2,
  gpu_model: "NVIDIA A100",
  monitored: false,
  figures: {},
  error_message: null,
  created_at: 0,
  started_at: 0,
  completed_at: number,
  repeats: null,
  disturbances: [],
});

it("shows a score as the objective has it: throughput is kept negated", () => {
  const throughput = objectiveOf({ objective: "maximize_throughput" });
  expect(scoreText(-4118.2, throughput)).toBe("4,118");
  expect(scoreText(0.0355, objectiveOf({ objective: "minimize_ttft" }))).toBe("35.5 ms");
  expect(scoreText(null, throughput)).toBe("–");
  const several = objectiveOf({ objective: "['minimize_tpot', 'maximize_throughput']" });
  expect(several.name).toBe("mean_tpot");
});

it("tells the best so far in the order in which scores were found", () => {
  const objective = objectiveOf({ objective: "maximize_throughput" });
  const points = scorePoints([row(3, -5), row(1, -2), row(2, null), row(4, -4)], objective);
  expect(points.map(({ value, best }) => [value, best])).toEqual([
    [2, 2],
    [5, 5],
    [4, 5],
  ]);
});

it("counts GPUs with the first word of their model, and says N/A where there are none", () => {
  expect(gpusText(row(1, 1))).toBe("2 (NVIDIA)");
  expect(gpusText({ gpus: null, gpu_model: null })).toBe("N/A");
  expect(gpusText({ gpus: 1, gpu_model: null })).toBe("1");
});

it("names models of GPU in full where they differ, for their figures do not compare", () => {
  const other = { ...row(2, 1), gpu_model: "NVIDIA H100" };
  const waiting = { ...row(3, null), gpus: null, gpu_model: null };
  expect(onSeveralModels([row(1, 1), row(2, 1), waiting])).toBe(false);
  expect(onSeveralModels([row(1, 1), other])).toBe(true);
  expect(gpusText(other, true)).toBe("2 (NVIDIA H100)");
});

it("draws only the parameters of which several values were tried", () => {
  expect(variedParameters([row(1, 1, { a: 1, b: 1 }), row(2, 1, { a: 1, b: true })])).toEqual(["b"]);
});

it("writes times in milliseconds below a second", () => {
  expect([0.0123, 2, 12.345].map((value) => figureText(value, { unit: "s" }))).toEqual([
    "12.3 ms",
    "2 s",
    "12.3 s",
  ]);
});

it("compares two, with what differs first, and whether more is better", () => {
  expect(
    comparedParameters({ a: 1, b: 1 }, { a: 1, b: 2 }).map(({ name, differs }) => [name, differs]),
  ).toEqual([
    ["b", true],
    ["a", false],
  ]);
  const lines = comparedFigures({ mean_ttft: 1, mean_total_throughput: 10 }, { mean_ttft: 2 });
  expect(lines.map(({ difference, tone }) => [difference, tone])).toEqual([
    ["–", undefined],
    ["100 % more", "bad"],
  ]);
});

it("takes of metrics only what is what it should be", () => {
  for (const garbage of [null, [], "x", { raw_results: "x", gpu_monitoring: [] }, { raw_results: [null] }]) {
    expect(levelsOf(garbage)).toEqual([]);
    expect(monitoringOf(garbage)).toBeNull();
    expect(courseOf(garbage)).toBeNull();
  }
  expect(numbersOf({ a: 1, b: "<img>" })).toEqual({ a: 1 });
  const stats = { 0: { name: 7, utilization: { min: 1, mean: 2, max: 3 }, temperature_c: "hot" }, 1: null };
  expect(monitoringOf({ gpu_monitoring: { sample_count: 4, gpu_stats: stats } })).toEqual({
    durationS: 0,
    samples: 4,
    stats: { 0: { name: null, utilization: { min: 1, mean: 2, max: 3 } } },
  });
});

it("joins what the tuner has read of GPUs at each level to lines over time", () => {
  const gpu = (means: unknown) => ({ label: "3", name: "H100", memory_mib: 80_000, means });
  const course = (from: number, means: unknown) => ({
    gpu_course: { from, to: from + 30, step_s: 10, gpus: [gpu(means)] },
  });
  const metrics = {
    raw_results: [
      course(100, {
        power_w: [
          [0, 300],
          [2, 310],
        ],
      }),
      { num_concurrency: 1 },
      course(200, { power_w: [[1, 320]] }),
    ],
  };
  const found = courseOf(metrics);
  expect(found).toMatchObject({ from: 100, to: 230, step_s: 10 });
  const [one] = found?.gpus ?? [];
  expect(one).toMatchObject({ label: "3", name: "H100", memory_mib: 80_000 });
  expect(one?.series.power_w?.map(({ t, mean }) => [t, mean])).toEqual([
    [100, 300],
    [120, 310],
    [210, 320],
  ]);
});

it("draws nothing of a course that makes no sense", () => {
  for (const course of [
    null,
    { from: 2, to: 1, step_s: 1, gpus: [] },
    { from: 1, to: 2, step_s: 0, gpus: [{ label: "0", means: {} }] },
    { from: 1, to: 2, step_s: 1, gpus: ["x", { label: 3, means: {} }, { label: "0", means: 1 }] },
  ])
    expect(courseOf({ raw_results: [{ gpu_course: course }] })).toBeNull();
  const odd = {
    from: 1,
    to: 2,
    step_s: 1,
    gpus: [{ label: "0", means: { power_w: [1, ["a", 2], [0, null]] } }],
  };
  expect(courseOf({ raw_results: [{ gpu_course: odd }] })?.gpus[0]?.series).toEqual({ power_w: [] });
});
