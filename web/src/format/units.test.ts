import { expect, it } from "vitest";
import { memory, partOf, percent, share, UNKNOWN } from "./units";

it("writes what is not known as a dash, and never as 0", () => {
  for (const written of [memory(null), share(undefined), percent(null)]) expect(written).toBe(UNKNOWN);
  expect(partOf(null, 10)).toBeNull();
  expect(partOf(5, null)).toBeNull();
  expect(partOf(5, 0)).toBeNull();
});

it("writes memory as the command line does", () => {
  expect([512, 1024, 1536, 81920].map(memory)).toEqual(["512M", "1G", "1.5G", "80G"]);
});

it("writes shares as parts of a GPU", () => {
  expect([1000, 250, 2500].map(share)).toEqual(["1", "0.25", "2.5"]);
});
