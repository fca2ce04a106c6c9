import { expect, it } from "vitest";
import { summaryOf, withGaps } from "./timeSeries";

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

it("tells in words what a line shows", () => {
  const series = [
    { name: "GPU 0", points: [at(0, 1024), at(10, 3072)] },
    { name: "GPU 1", points: [] },
  ];
  expect(summaryOf(series, "GiB", 1 / 1024)).toEqual([
    "GPU 0: mean 2.0 GiB, least 1.0 GiB, most 3.0 GiB, last 3.0 GiB",
    "GPU 1: no reading",
  ]);
});
