import { expect, it } from "vitest";
import { intervalS, stepPoints, waitPoints } from "./courses";

it("holds each value for its step, the last one too", () => {
  expect(stepPoints([1, 3], 100, 10)).toEqual([
    [100_000, 1],
    [110_000, 3],
    [120_000, 3],
  ]);
  expect(stepPoints([], 100, 10)).toEqual([]);
});

it("spreads quantiles from the first job to the last", () => {
  expect(waitPoints([0, 5, 9])).toEqual([
    [0, 0],
    [50, 5],
    [100, 9],
  ]);
  expect(waitPoints([7])).toEqual([[0, 7]]);
});

it("divides an axis of waits by round times", () => {
  expect([0, 59, 240, 23_000, 86_400 * 2].map(intervalS)).toEqual([1, 15, 60, 7_200, 43_200]);
  expect(intervalS(604_800 * 20)).toBe(604_800 * 4);
});
