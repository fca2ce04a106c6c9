// @vitest-environment jsdom
import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { LiveEvent } from "./events";
import { LiveRows } from "./LiveRows";

const event = (fields: Partial<LiveEvent>): LiveEvent => ({
  topic: "jobs",
  what: "changed",
  id: 1,
  at: 0,
  rows: [],
  message: null,
  ...fields,
});

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

it("shows readings as they come", () => {
  const client = new QueryClient();
  client.setQueryData(["devices"], [{ uuid: "GPU-1", utilization_pct: 1 }]);
  new LiveRows(client).take([
    event({ topic: "metrics", rows: [{ uuid: "GPU-1", utilization_pct: 90 }] }),
    event({ topic: "metrics", rows: [{ uuid: "GPU-1", temperature_c: 50 }] }),
  ]);
  vi.advanceTimersByTime(1);
  expect(client.getQueryData(["devices"])).toEqual([
    { uuid: "GPU-1", utilization_pct: 90, temperature_c: 50 },
  ]);
});

it("reads a job once more where it ended while it was being read", async () => {
  const client = new QueryClient();
  let phase = "RUNNING";
  const read = () => {
    const told = { phase };
    return new Promise((resolve) => setTimeout(() => resolve(told), 200));
  };
  const stop = new QueryObserver(client, { queryKey: ["job", "1"], queryFn: read }).subscribe(
    () => undefined,
  );
  await vi.advanceTimersByTimeAsync(300);
  const rows = new LiveRows(client);
  rows.take([event({ rows: [{ id: "1" }, { id: "2" }] })]);
  await vi.advanceTimersByTimeAsync(100);
  phase = "CANCELLED";
  rows.take([event({ rows: [{ id: "1" }] })]);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(client.getQueryData(["job", "1"])).toEqual({ phase: "CANCELLED" });
  rows.close();
  stop();
});

it("reads nothing more of a task that was deleted", async () => {
  const client = new QueryClient();
  let reads = 0;
  const read = () => Promise.resolve(++reads);
  const stop = new QueryObserver(client, { queryKey: ["task", "7"], queryFn: read }).subscribe(
    () => undefined,
  );
  await vi.advanceTimersByTimeAsync(10);
  const rows = new LiveRows(client);
  rows.take([
    event({ topic: "tasks", what: "ended", rows: [{ id: "7" }] }),
    event({ topic: "tasks", what: "deleted", rows: [{ id: "7" }] }),
  ]);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(reads).toBe(1);
  rows.close();
  stop();
});

it("goes on at once where the clock of the browser is set back by an hour", () => {
  const client = new QueryClient();
  client.setQueryData(["devices"], [{ uuid: "GPU-1", utilization_pct: 1 }]);
  const rows = new LiveRows(client);
  for (const utilization_pct of [50, 90]) {
    rows.take([event({ topic: "metrics", rows: [{ uuid: "GPU-1", utilization_pct }] })]);
    vi.advanceTimersByTime(100);
    vi.setSystemTime(Date.now() - 3_600_000);
  }
  expect(client.getQueryData(["devices"])).toEqual([{ uuid: "GPU-1", utilization_pct: 90 }]);
});

it("reads a listing again at once, and then the more rarely the longer it is", async () => {
  const client = new QueryClient();
  const read = vi.fn(() => Promise.resolve(Array.from({ length: 10_000 }, (_, at) => ({ id: String(at) }))));
  const stop = new QueryObserver(client, { queryKey: ["jobs", {}], queryFn: read }).subscribe(
    () => undefined,
  );
  await vi.advanceTimersByTimeAsync(10);
  expect(read).toHaveBeenCalledTimes(1);
  const rows = new LiveRows(client);
  for (let at = 0; at < 100; at += 1) {
    rows.take([event({ id: at, rows: [{ id: String(at), phase: "RUNNING" }] })]);
    await vi.advanceTimersByTimeAsync(100);
  }
  expect(read.mock.calls.length).toBeLessThanOrEqual(3);
  expect(read.mock.calls.length).toBeGreaterThan(1);
  await vi.advanceTimersByTimeAsync(10_000);
  const reads = read.mock.calls.length;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(read.mock.calls.length).toBe(reads);
  rows.close();
  stop();
});

it("reads everything anew where events are missing", () => {
  const client = new QueryClient();
  const renewed = vi.spyOn(client, "invalidateQueries");
  new LiveRows(client).take([event({ topic: "reset" })]);
  expect(renewed).toHaveBeenCalledWith();
});
