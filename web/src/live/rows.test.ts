import { expect, it } from "vitest";
import type { Job } from "../api/queries";
import { withJobs, withRows } from "./rows";

const job = (id: number, fields: Partial<Job> = {}) =>
  ({ id: String(id), sequence: id, phase: "PENDING", ended_at: null, ...fields }) as Job;
const whole = (id: number) => ({ ...job(id), submitted_at: 1, priority: 5 });
const ids = (rows: Job[] | undefined) => rows?.map((row) => row.id);

it("puts new fields into the row of their key, and leaves the other rows as they are", () => {
  const known = [
    { id: "1", phase: "PENDING", name: "a" },
    { id: "2", phase: "PENDING", name: "b" },
  ];
  const rows = withRows<(typeof known)[number]>([{ id: "2", phase: "RUNNING" }], "id")(known);
  expect(rows).toEqual([known[0], { id: "2", phase: "RUNNING", name: "b" }]);
  expect(rows?.[0]).toBe(known[0]);
});

it("changes nothing where no row has the key", () => {
  const known = [{ id: "1" }];
  expect(withRows<{ id: string }>([{ id: "9" }], "id")(known)).toBe(known);
  expect(withRows([{ id: "9" }], "id")(undefined)).toBeUndefined();
});

it("adds a job that was submitted where the listing's other jobs have their order", () => {
  expect(ids(withJobs([whole(3)], {})([job(1), job(2)]))).toEqual(["1", "2", "3"]);
  expect(ids(withJobs([whole(3), whole(4)], {})([job(2), job(1)]))).toEqual(["4", "3", "2", "1"]);
  expect(ids(withJobs([whole(3)], {})([]))).toEqual(["3"]);
});

it("adds a job once, with all that was said of it since", () => {
  const rows = withJobs([whole(1), { id: "1", phase: "RUNNING" }, whole(2)], {})([job(2)]);
  expect(ids(rows)?.sort()).toEqual(["1", "2"]);
  expect(rows?.find((row) => row.id === "1")?.phase).toBe("RUNNING");
});

it("adds nothing to a listing of some jobs: which, the server alone knows", () => {
  expect(ids(withJobs([whole(3)], { user: "alice" })([job(1)]))).toEqual(["1"]);
  expect(ids(withJobs([{ id: "3", phase: "RUNNING" }], {})([job(1)]))).toEqual(["1"]);
});

it("takes a job out that has ended, where ended ones are not listed", () => {
  const end = { id: "1", phase: "SUCCEEDED", ended_at: 9 };
  expect(ids(withJobs([end], {})([job(1), job(2)]))).toEqual(["2"]);
  expect(ids(withJobs([end], { all: true })([job(1), job(2)]))).toEqual(["1", "2"]);
  expect(ids(withJobs([end], { all: true, phase: "PENDING" })([job(1), job(2)]))).toEqual(["2"]);
});
