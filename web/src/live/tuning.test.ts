import { expect, it } from "vitest";
import type { Experiment, Task } from "../api/taskQueries";
import type { LiveEvent } from "./events";
import { noteTuning, noTuningNews, withExperiments, withTasks } from "./tuning";

const event = (what: string, row: Record<string, unknown>): LiveEvent => ({
  topic: "tasks",
  what,
  id: 1,
  at: 0,
  rows: [row],
  message: null,
});

it("puts new experiments in by their number, and keeps the rows that have not changed", () => {
  const known = [
    { id: "10", experiment_id: 1 },
    { id: "30", experiment_id: 3 },
  ] as Experiment[];
  const fresh = [
    { id: "20", experiment_id: 2 },
    { id: "30", experiment_id: 3, status: "success" },
  ];
  const rows = withExperiments({ cleared: false, rows: fresh })(known);
  expect(rows?.map(({ id, status }) => [id, status])).toEqual([
    ["10", undefined],
    ["20", undefined],
    ["30", "success"],
  ]);
  expect(rows?.[0]).toBe(known[0]);
  expect(withExperiments({ cleared: false, rows: fresh })(undefined)).toBeUndefined();
});

it("forgets what was deleted or cleared, also what was told just before", () => {
  const news = noTuningNews();
  noteTuning(news, event("experiment_ended", { id: "20", task_id: "1" }));
  noteTuning(news, event("experiments_cleared", { id: "1" }));
  noteTuning(news, event("created", { id: "1", status: "pending" }));
  noteTuning(news, event("deleted", { id: "2" }));
  noteTuning(news, event("experiment_created", { id: "30", task_id: "1", experiment_id: 1 }));
  const told = news.experiments.get("1");
  expect(told && withExperiments(told)([{ id: "20" }] as Experiment[])?.map(({ id }) => id)).toEqual(["30"]);
  const tasks = [
    { id: "1", status: "failed", user: "a" },
    { id: "2", status: "failed" },
  ] as Task[];
  expect(withTasks(news.tasks, news.gone)(tasks)).toEqual([{ id: "1", status: "pending", user: "a" }]);
});
