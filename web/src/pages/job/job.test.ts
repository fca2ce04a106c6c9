import { expect, it } from "vitest";
import type { Device, JobDetail } from "../../api/queries";
import { changesOf } from "./changes";
import { inPercentOf, memoryTotalMib } from "./gpuFigures";
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
const device = (uuid: string, memory_total_mib: number | null) => ({ uuid, memory_total_mib }) as Device;

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

it("draws memory in percent only where the whole is known", () => {
  const two = { grant: [{ uuid: "GPU-1" }, { uuid: "GPU-2" }] } as JobDetail;
  expect(memoryTotalMib(two, [device("GPU-1", 100), device("GPU-2", 300)])).toBe(400);
  expect(memoryTotalMib(two, [device("GPU-1", 100), device("GPU-2", null)])).toBeNull();
  expect(memoryTotalMib(two, [device("GPU-1", 100)])).toBeNull();
  const point = { t: 0, min: 40, mean: 100, max: 200 };
  expect(inPercentOf([point], 400)).toEqual([{ t: 0, min: 10, mean: 25, max: 50 }]);
  expect(inPercentOf([point], null)).toEqual([]);
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
