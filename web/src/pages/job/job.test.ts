import { expect, it } from "vitest";
import type { JobDetail } from "../../api/queries";
import { changesOf } from "./changes";
import { gpuLines } from "./gpuFigures";
import { requestAgainstUse } from "./jobUse";
import { stateHistory } from "./stateHistory";

const attempt = (fields: object) => ({
  attempt: 1,
  node: "n1",
  nodes: ["n1"],
  devices: ["GPU-1"],
  allocated_at: 12,
  started_at: 13,
  ended_at: null,
  ended_as: null,
  exit_code: null,
  log: null,
  reason: null,
  signal: null,
  ...fields,
});
const job = (fields: object) =>
  ({
    submitted_at: 10,
    ended_at: null,
    phase: "RUNNING",
    reason: null,
    history: [],
    grant: [],
    needs: "1 GPU",
    gpus_milli: 1000,
    time_limit_s: null,
    use: null,
    priority: 5,
    name: "a",
    queue: "default",
    ...fields,
  }) as unknown as JobDetail;

it("tells what became of a job in the order of time, attempt by attempt", () => {
  const history = [
    attempt({ ended_at: 20, ended_as: "preempted", reason: "for 7" }),
    attempt({ attempt: 2, allocated_at: 30, started_at: null }),
  ];
  expect(stateHistory(job({ history })).map((step) => [step.at, step.what])).toEqual([
    [10, "submitted"],
    [12, "got its devices"],
    [13, "started, attempt 1"],
    [20, "preempted"],
    [30, "got its devices"],
  ]);
});

it("tells the end of a job that never ran, and no end twice", () => {
  expect(stateHistory(job({ ended_at: 15, phase: "CANCELLED" })).at(-1)?.what).toBe("cancelled");
  const ran = job({
    ended_at: 20,
    phase: "FAILED",
    history: [attempt({ ended_at: 20, ended_as: "failed" })],
  });
  expect(stateHistory(ran).filter((step) => step.at === 20)).toHaveLength(1);
});

it("draws a line for each GPU, with memory in percent of its own", () => {
  const point = (mean: number) => ({ t: 0, min: mean, mean, max: mean, p95: mean, coverage: 1 });
  const gpu = (label: string, memory_mib: number | null, mean: number) => ({
    label,
    name: "NVIDIA A100",
    memory_mib,
    series: { memory_used_mib: [point(mean)], power_w: [point(mean)] },
  });
  const gpus = [gpu("0", 400, 100), gpu("n2:1", null, 300)];
  const told = (series: string) =>
    gpuLines({ id: "1", from: 0, to: 1, step_s: 1, gpus, series: {} }, series).map(({ name, points }) => [
      name,
      points.map(({ mean }) => mean),
    ]);
  expect(told("power_w")).toEqual([
    ["GPU 0: A100", [100]],
    ["GPU n2:1: A100", [300]],
  ]);
  // Of one whose memory is not known no part can be told.
  expect(told("memory_used_mib")).toEqual([
    ["GPU 0: A100", [25]],
    ["GPU n2:1: A100", []],
  ]);
});

it("draws of very many GPUs the most, the mean and the least", () => {
  const gpus = Array.from({ length: 17 }, (_, at) => ({
    label: String(at),
    name: null,
    memory_mib: 400,
    series: {},
  }));
  const spread = [{ t: 0, min: 40, mean: 100, max: 200, p95: 200, coverage: 1 }];
  const lines = gpuLines(
    { id: "1", from: 0, to: 1, step_s: 1, gpus, series: { memory_used_mib: spread } },
    "memory_used_mib",
  );
  expect(lines.map(({ name, points }) => [name, points[0]?.mean])).toEqual([
    ["most", 50],
    ["mean", 25],
    ["least", 10],
  ]);
});

it("puts what was not measured as unknown, and never as 0", () => {
  const rows = requestAgainstUse(job({}), [], null);
  expect(rows.find((row) => row.what === "GPUs")?.used).toBe("–");
  expect(rows.find((row) => row.what === "memory of a GPU")).toMatchObject({ asked: "–", used: "–" });
});

it("sends of a change only what differs", () => {
  const before = job({ time_limit_s: 7200 });
  const same = { priority: "5", time: "2h", name: "a", queue: "default" };
  expect(changesOf(before, same)).toEqual({ body: {}, priorityIsWrong: false, timeIsWrong: false });
  expect(changesOf(before, { ...same, time: "90m", name: "" }).body).toEqual({
    time_limit_s: 5400,
    name: "",
  });
  expect(changesOf(before, { ...same, time: "" }).timeIsWrong).toBe(true);
  expect(changesOf(before, { ...same, priority: "1.5" }).priorityIsWrong).toBe(true);
});
