import { expect, it } from "vitest";
import type { Device, Job } from "../api/queries";
import { timelineOf } from "./timeline";

const device = (index: number, node = "n1", state = "free") =>
  ({ uuid: `GPU-${node}-${index}`, index, node, state, mig_profile: null }) as Device;
const job = (id: string, fields: Partial<Job>) =>
  ({
    id,
    devices: [],
    grants: [],
    gpus: 1,
    gpus_milli: 1000,
    started_at: null,
    ended_at: null,
    expected_start: null,
    time_limit_s: null,
    ...fields,
  }) as Job;
const window = { fromS: 0, toS: 200, nowS: 100 };
const two = [device(0), device(1)];

it("has a bar for each device that a job had, in the row of that device", () => {
  const past = job("1", { devices: ["GPU-n1-0", "GPU-n1-1"], started_at: 10, ended_at: 50 });
  const { rows, spans } = timelineOf([past], two, window);
  expect(rows).toEqual(["n1:0", "n1:1"]);
  expect(spans.map((span) => [span.row, span.from, span.to, span.is])).toEqual([
    [0, 10, 50, "past"],
    [1, 10, 50, "past"],
  ]);
});

it("draws a running job up to its time limit, and one without to the end of the picture", () => {
  const limited = job("1", { devices: ["GPU-n1-0"], started_at: 90, time_limit_s: 60 });
  const unlimited = job("2", { devices: ["GPU-n1-1"], started_at: 90 });
  const { spans } = timelineOf([limited, unlimited], two, window);
  expect(spans.map((span) => [span.to, span.open])).toEqual([
    [150, false],
    [200, true],
  ]);
});

it("puts a waiting job on devices that are free by its expected start, of one node", () => {
  const runs = job("1", { devices: ["GPU-n1-0"], started_at: 90, time_limit_s: 60 });
  const waits = job("2", { gpus: 2, gpus_milli: 2000, expected_start: 150, time_limit_s: 20 });
  const { spans, elsewhere } = timelineOf([runs, waits], [...two, device(0, "n2")], window);
  expect(spans.filter((span) => span.is === "expected").map((span) => span.row)).toEqual([0, 1]);
  expect(elsewhere).toEqual([]);
});

it("does not guess devices where none are free by then", () => {
  const runs = job("1", { devices: ["GPU-n1-0"], started_at: 90 });
  const waits = job("2", { expected_start: 120 });
  const { spans, elsewhere } = timelineOf([runs, waits], [device(0), device(1, "n1", "unhealthy")], window);
  expect(spans.some((span) => span.is === "expected")).toBe(false);
  expect(elsewhere.map((each) => each.id)).toEqual(["2"]);
});

it("leaves out what was over before, and devices that are gone", () => {
  const before = job("1", { devices: ["GPU-n1-0"], started_at: -90, ended_at: -10 });
  const gone = job("2", { devices: ["GPU-gone"], started_at: 10, ended_at: 20 });
  expect(timelineOf([before, gone], two, window).spans).toEqual([]);
});
