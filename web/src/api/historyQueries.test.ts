// @vitest-environment jsdom
import { expect, it } from "vitest";
import { historyQuery, momentsOf, type Range, readRange } from "./historyQueries";

it.each([
  ["6h", "6h"],
  ["1763900000-1763910000", "1763900000-1763910000"],
  ["1763910000-1763900000", undefined],
  ["1763900000-", undefined],
  ["1763900000-17639100000000", undefined],
  ["1-2&series=x", undefined],
  ["5h", undefined],
  [7, undefined],
])("reads %s of an address as %s", (text, range) => expect(readRange(text)).toBe(range));

it("tells the two moments of a stretch", () => {
  expect(momentsOf("10-20")).toEqual([10, 20]);
  expect(momentsOf("6h")).toBeNull();
});

it("reads again what goes on, and what is past once", () => {
  const again = (range: Range) => historyQuery("nodes", "n1", range, []).refetchInterval;
  expect([again("1h"), again("6h"), again("10-20")]).toEqual([10_000, 60_000, false]);
});
