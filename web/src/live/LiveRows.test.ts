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
