import { expect, it } from "vitest";
import { readSearch, writtenSearch } from "./search";

it("takes an address for text, whatever it looks like", () => {
  for (const name of [
    "1e3",
    "007",
    "12345678901234567890",
    "true",
    "null",
    '"x"',
    "[1",
    "a b&c=d",
    "%",
    "\u202e",
  ])
    expect(readSearch(writtenSearch({ name, none: undefined }))).toEqual({ name });
  expect(readSearch("?user=1e999&x=%E0%A4%A")).toMatchObject({ user: "1e999" });
  expect(writtenSearch({})).toBe("");
});
