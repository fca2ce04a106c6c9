import { expect, it } from "vitest";
import { withGaps } from "./timeSeries";

const at = (t: number, mean: number) => ({ t, min: mean, mean, max: mean });

it("draws no line over a time without readings", () => {
  expect(withGaps([at(0, 1), at(10, 2), at(60, 3)], 10)).toEqual([
    [0, 1],
    [10_000, 2],
    [20_000, null],
    [60_000, 3],
  ]);
});

it("draws every point where none is missing", () => {
  expect(withGaps([at(0, 1), at(10, 2)], 10)).toHaveLength(2);
});
