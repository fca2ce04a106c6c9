import { expect, it } from "vitest";
import type { Job } from "../api/queries";
import { countedPhases, JobLines } from "./jobLines";

const job = (id: string, more: Partial<Job> = {}): Job => {
  const [array, index] = id.split("_");
  const of = index === undefined ? {} : { array_id: array, array_index: Number(index) };
  return { id, user: "al", phase: "PENDING", name: "", ...of, ...more } as Job;
};
const LISTED = [job("9"), job("8_2"), job("8_1", { phase: "RUNNING" }), job("8_0"), job("7")];
const none = new Set<string>();

it("has one line for all elements of an array, where the first of them was", () => {
  const lines = new JobLines().of(LISTED, none);
  expect(lines.map((line) => line.key)).toEqual(["9", "array 8", "7"]);
  expect(lines[1]?.elements?.map((each) => each.id)).toEqual(["8_0", "8_1", "8_2"]);
});

it("lets the element speak for an array that is the next to start", () => {
  const [line] = new JobLines().of([job("8_1"), job("8_0", { phase: "RUNNING" })], none);
  expect(line?.job.id).toBe("8_1");
});

it("shows the elements of an open array, each as one below it, and of a closed one none", () => {
  const lines = new JobLines();
  const array = (open: ReadonlySet<string>) =>
    lines.of(LISTED, open).flatMap((line) => [...lines.below(line)]);
  expect(array(none)).toEqual([]);
  expect(array(new Set(["array 8"])).map((line) => [line.key, line.below])).toEqual([
    ["8_0", true],
    ["8_1", true],
    ["8_2", true],
  ]);
});

it("takes an element that is listed alone for a job like any other", () => {
  expect(new JobLines().of([job("8_3")], none)[0]).toMatchObject({
    key: "8_3",
    elements: null,
    below: false,
  });
});

it("keeps the lines of what has not changed, so that they are not drawn anew", () => {
  const lines = new JobLines();
  const before = lines.of(LISTED, none);
  expect(lines.of([...LISTED], none)).toEqual(before);
  expect(lines.of([...LISTED], none).every((line, at) => line === before[at])).toBe(true);
  const after = lines.of(
    LISTED.map((each) => (each.id === "8_0" ? { ...each, phase: "RUNNING" as const } : each)),
    none,
  );
  expect(after.map((line, at) => line === before[at])).toEqual([true, false, true]);
});

it("counts the phases of elements, those that run first", () => {
  expect(countedPhases(LISTED)).toEqual([
    ["RUNNING", 1],
    ["PENDING", 4],
  ]);
});
