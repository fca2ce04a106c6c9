/** Keeps what the pages show in step with the server, by its events. */
import type { QueryClient } from "@tanstack/react-query";
import type { Device, Job, JobFilter } from "../api/queries";
import { setServerNow } from "../format/times";
import { conditionsQuery, withCondition } from "./deviceConditions";
import type { Experiment, Task } from "../api/taskQueries";
import type { LiveEvent } from "./events";
import { Renewing } from "./renewing";
import { type Row, withJobs, withRows } from "./rows";
import { noteTuning, noTuningNews, withExperiments, withTasks } from "./tuning";

/** Tables are drawn anew at most so often, however much happens. Counted by a clock that nobody sets. */
const DRAW_MS = 100;

/** What has to be read again, because events do not tell all of it. */
const RENEWED: Record<string, readonly string[]> = {
  jobs: ["jobs", "why", "queues", "devices", "alloc-map"],
  devices: ["devices", "nodes", "alloc-map"],
  alerts: ["alerts", "silences"],
  tasks: ["tasks"],
};

/** After these the findings of a task may be others. */
const FOUND_BY: readonly string[] = ["experiment_ended", "experiments_cleared", "ended", "cancelled"];

/** What is kept of a task under its id; a deleted task has none of it. */
const OF_A_TASK: readonly string[] = ["task", "experiments", "findings"];

/** Puts the fields of events into the rows that pages show, and has read again what events leave out. */
export class LiveRows {
  private readonly renewing: Renewing;
  private jobs: Row[] = [];
  private readings: Row[] = [];
  private tuning = noTuningNews();
  private timer: number | undefined;
  private drawn = Number.NEGATIVE_INFINITY;

  constructor(private readonly client: QueryClient) {
    this.renewing = new Renewing(client);
  }

  take(events: readonly LiveEvent[]): void {
    for (const event of events) this.note(event);
    this.timer ??= window.setTimeout(
      () => this.draw(),
      Math.max(0, this.drawn + DRAW_MS - performance.now()),
    );
  }

  close(): void {
    window.clearTimeout(this.timer);
    this.renewing.close();
  }

  private note(event: LiveEvent): void {
    if (event.topic === "hello" || event.topic === "ping") setServerNow(event.at);
    if (event.topic === "reset") void this.client.invalidateQueries();
    if (event.topic === "devices" && event.id === null)
      this.client.setQueryData(conditionsQuery.queryKey, (told = []) => withCondition(told, event));
    if (event.topic === "metrics") this.readings.push(...event.rows);
    if (event.topic === "jobs") {
      this.jobs.push(...event.rows);
      for (const { id } of event.rows) {
        if (typeof id === "string" && this.client.getQueryState(["job", id])) this.renewing.renew("job", id);
      }
    }
    if (event.topic === "tasks") this.noteTuning(event);
    for (const key of RENEWED[event.topic] ?? []) this.renewing.renew(key);
  }

  private noteTuning(event: LiveEvent): void {
    noteTuning(this.tuning, event);
    if (event.what === "deleted") {
      for (const { id } of event.rows) for (const key of OF_A_TASK) this.renewing.forget(key, String(id));
      return;
    }
    for (const row of event.rows) {
      const id = String(row.task_id ?? row.id);
      for (const key of FOUND_BY.includes(event.what) ? ["task", "findings"] : ["task"])
        if (this.client.getQueryState([key, id])) this.renewing.renew(key, id);
      if (row.task_id !== undefined && this.client.getQueryState(["experiment", row.id]))
        this.renewing.renew("experiment", String(row.id));
    }
  }

  private draw(): void {
    this.timer = undefined;
    this.drawn = performance.now();
    const { jobs, readings } = this;
    this.jobs = [];
    this.readings = [];
    this.drawTuning();
    if (readings.length) this.client.setQueryData<Device[]>(["devices"], withRows(readings, "uuid"));
    if (!jobs.length) return;
    for (const query of this.client.getQueryCache().findAll({ queryKey: ["jobs"], type: "active" })) {
      const filter = query.queryKey[1];
      if (typeof filter !== "object" || filter === null || !Array.isArray(query.state.data)) continue;
      this.client.setQueryData<Job[]>(query.queryKey, withJobs(jobs, filter as JobFilter));
    }
  }

  private drawTuning(): void {
    const { tasks, gone, experiments } = this.tuning;
    this.tuning = noTuningNews();
    if (tasks.length || gone.size) this.client.setQueryData<Task[]>(["tasks"], withTasks(tasks, gone));
    for (const [id, fresh] of experiments)
      this.client.setQueryData<Experiment[]>(["experiments", id], withExperiments(fresh));
  }
}
