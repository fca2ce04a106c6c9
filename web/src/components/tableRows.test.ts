import { expect, it } from "vitest";
import { type Column, inOrder, inSight } from "./tableRows";

interface Row {
  name: string | null;
}
const COLUMNS: Column<Row>[] = [{ id: "name", header: "Name", value: (row) => row.name }];
const names = (descending: boolean) =>
  inOrder([{ name: "gpu-10" }, { name: null }, { name: "gpu-9" }, { name: "GPU-1" }], COLUMNS, {
    id: "name",
    descending,
  }).map((row) => row.name);

it("counts the numbers within names, and puts what is not known last either way", () => {
  expect(names(false)).toEqual(["GPU-1", "gpu-9", "gpu-10", null]);
  expect(names(true)).toEqual(["gpu-10", "gpu-9", "GPU-1", null]);
});

it("draws rows above and below those in sight, and never any that there are not", () => {
  expect(inSight(0, 1_000, 30)).toEqual({ first: 0, end: 50 });
  expect(inSight(800, 1_000, 30)).toEqual({ first: 788, end: 850 });
  // The table has become shorter than where it is scrolled to.
  expect(inSight(800, 300, 30)).toEqual({ first: 288, end: 300 });
});
