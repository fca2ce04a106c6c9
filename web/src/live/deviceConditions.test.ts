import { expect, it } from "vitest";
import { conditionsOf, withCondition } from "./deviceConditions";
import type { LiveEvent } from "./events";

const event = (what: string, at: number, reason: string | null): LiveEvent => ({
  topic: "devices",
  what,
  id: null,
  at,
  rows: [{ uuid: "GPU-1", reason }],
  message: null,
});
const device = (state: string, since: number | null) => ({
  uuid: "GPU-1",
  state: state as "free",
  state_reason: "hot",
  state_since: since,
});

it("tells of a device what was told of it, the last first", () => {
  const told = withCondition(withCondition([], event("unhealthy", 5, "hot")), event("well", 9, null));
  expect(conditionsOf(told, device("free", null)).map(({ what, at }) => [what, at])).toEqual([
    ["well", 9],
    ["unhealthy", 5],
  ]);
  expect(conditionsOf(told, { ...device("free", null), uuid: "GPU-2" })).toEqual([]);
});

it("tells of one that was ill before anybody looked since when it is", () => {
  expect(conditionsOf([], device("unhealthy", 3))).toEqual([
    { uuid: "GPU-1", at: 3, what: "unhealthy", reason: "hot" },
  ]);
  const told = withCondition([], event("unhealthy", 5, "hot"));
  expect(conditionsOf(told, device("unhealthy", 4))).toHaveLength(1);
});
