// @vitest-environment jsdom
import { QueryClient } from "@tanstack/react-query";
import { beforeEach, expect, it, vi } from "vitest";
import { type LiveEvent, LiveRows, withRows } from "./events";

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

it("puts new fields into the row of their key, and leaves the other rows as they are", () => {
  const known = [
    { id: "1", phase: "PENDING", name: "a" },
    { id: "2", phase: "PENDING", name: "b" },
  ];
  const rows = withRows<(typeof known)[number]>([{ id: "2", phase: "RUNNING" }], "id")(known);
  expect(rows).toEqual([known[0], { id: "2", phase: "RUNNING", name: "b" }]);
  expect(rows?.[0]).toBe(known[0]);
});

it("changes nothing where no row has the key", () => {
  const known = [{ id: "1" }];
  expect(withRows<{ id: string }>([{ id: "9" }], "id")(known)).toBe(known);
  expect(withRows([{ id: "9" }], "id")(undefined)).toBeUndefined();
});

it("shows readings as they come", () => {
  const client = new QueryClient();
  client.setQueryData(["devices"], [{ uuid: "GPU-1", utilization_pct: 1 }]);
  new LiveRows(client).take(event({ topic: "metrics", rows: [{ uuid: "GPU-1", utilization_pct: 90 }] }));
  expect(client.getQueryData(["devices"])).toEqual([{ uuid: "GPU-1", utilization_pct: 90 }]);
});

it("reads listings anew once, however much happens", () => {
  const client = new QueryClient();
  const renewed = vi.spyOn(client, "invalidateQueries");
  const rows = new LiveRows(client);
  for (let at = 0; at < 100; at += 1) rows.take(event({ id: at }));
  vi.runAllTimers();
  expect(renewed.mock.calls.filter(([filter]) => filter?.queryKey?.[0] === "jobs")).toHaveLength(1);
});

it("reads everything anew where events are missing", () => {
  const client = new QueryClient();
  const renewed = vi.spyOn(client, "invalidateQueries");
  new LiveRows(client).take(event({ topic: "reset" }));
  expect(renewed).toHaveBeenCalledWith();
});
