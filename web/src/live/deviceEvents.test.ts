import { expect, it } from "vitest";
import { type DeviceEvents, withEvent } from "./deviceEvents";
import type { LiveEvent } from "./events";

const event = (id: number, what: string, row: Record<string, unknown>): LiveEvent => ({
  topic: "devices",
  what,
  id,
  at: id,
  rows: [row],
  message: null,
});
const read = (...events: LiveEvent[]): DeviceEvents =>
  events.reduce<DeviceEvents>((known, each) => withEvent(known, each, "GPU-1", "a"), {
    last: 0,
    events: [],
    holders: [],
  });
const told = (known: DeviceEvents) => known.events.map(({ what, job }) => [what, job]);

it("tells when a job got the device and gave it back, the last first", () => {
  const known = read(
    event(1, "allocated", { uuid: "GPU-1", job: "7", share_milli: 500 }),
    event(2, "freed", { job: "7" }),
  );
  expect(told(known)).toEqual([
    ["freed", "7"],
    ["allocated", "7"],
  ]);
  expect(known.holders).toEqual([]);
});

it("tells which of its jobs got another device in exchange, and which came", () => {
  const known = read(
    event(1, "allocated", { uuid: "GPU-1", job: "7" }),
    event(2, "exchanged", { uuid: "GPU-1", job: "7", share_milli: 500 }),
    event(3, "exchanged", { uuid: "GPU-2", job: "7" }),
    event(4, "exchanged", { uuid: "GPU-1", job: "8" }),
    event(5, "freed", { job: "7" }),
  );
  expect(told(known)).toEqual([
    ["allocated", "8"],
    ["freed", "7"],
    ["allocated", "7"],
  ]);
  expect(known.holders).toEqual(["8"]);
});

it("tells nothing of other devices, their jobs and other nodes", () => {
  const known = read(
    event(1, "allocated", { uuid: "GPU-2", job: "8" }),
    event(2, "freed", { job: "8" }),
    event(3, "node_cordoned", { node: "b", reason: "" }),
  );
  expect(known).toEqual({ last: 3, events: [], holders: [] });
});

it("tells why the device or its node was set apart", () => {
  const known = read(
    event(1, "cordoned", { uuid: "GPU-1", reason: "fan" }),
    event(2, "node_draining", { node: "a", reason: "disk" }),
  );
  expect(known.events.map(({ reason }) => reason)).toEqual(["disk", "fan"]);
});

it("tells the new health of the device as what happened, with its reason", () => {
  const known = read(event(1, "health", { uuid: "GPU-1", health: "quarantined", reason: "Xid 79" }));
  expect(known.events.map(({ what, reason }) => [what, reason])).toEqual([["quarantined", "Xid 79"]]);
});
