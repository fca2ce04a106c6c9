import { expect, it } from "vitest";
import { idsOf, MOST_COMPARED, withId, withoutId } from "./compared";

it("reads each id once, and no more than can be told apart", () => {
  expect(idsOf("a, b,,a")).toEqual(["a", "b"]);
  expect(idsOf(undefined)).toEqual([]);
  expect(idsOf(Array.from({ length: 20 }, (_, at) => at).join(","))).toHaveLength(MOST_COMPARED);
});

it("adds and takes away, and leaves nothing in the address of nothing", () => {
  expect(withId(["a"], "b")).toBe("a,b");
  expect(withId(["a"], "a")).toBe("a");
  expect(withoutId(["a", "b"], "a")).toBe("b");
  expect(withoutId(["a"], "a")).toBeUndefined();
});
