/** Keeps what the pages show in step with the server, by its events. */
import type { QueryClient } from "@tanstack/react-query";
import type { Device, Job, JobFilter } from "../api/queries";
import { setServerNow } from "../format/times";
import type { LiveEvent } from "./events";
import { Renewing } from "./renewing";
import { type Row, withJobs, withRows } from "./rows";

/** Tables are drawn anew at most so often, however much happens. */
const DRAW_MS = 100;

/** What has to be read again, because events do not tell all of it. */
const RENEWED: Record<string, readonly string[]> = {
  jobs: ["jobs", "why", "queues", "devices", "alloc-map"],
  devices: ["devices", "nodes", "alloc-map"],
  alerts: ["alerts", "silences"],
};

/** Puts the fields of events into the rows that pages show, and has read again what events leave out. */
export class LiveRows {
  private readonly renewing: Renewing;
  private jobs: Row[] = [];
  private readings: Row[] = [];
  private timer: number | undefined;
  private drawn = 0;

  constructor(private readonly client: QueryClient) {
    this.renewing = new Renewing(client);
  }

  take(events: readonly LiveEvent[]): void {
    for (const event of events) this.note(event);
    this.timer ??= window.setTimeout(() => this.draw(), Math.max(0, this.drawn + DRAW_MS - Date.now()));
  }

  close(): void {
    window.clearTimeout(this.timer);
    this.renewing.close();
  }

  private note(event: LiveEvent): void {
    if (event.topic === "hello" || event.topic === "ping") setServerNow(event.at);
    if (event.topic === "reset") void this.client.invalidateQueries();
    if (event.topic === "metrics") this.readings.push(...event.rows);
    if (event.topic === "jobs") {
      this.jobs.push(...event.rows);
      for (const row of event.rows) {
        void this.client.invalidateQueries({ queryKey: ["job", row.id] }, { cancelRefetch: false });
      }
    }
    for (const key of RENEWED[event.topic] ?? []) this.renewing.renew(key);
  }

  private draw(): void {
    this.timer = undefined;
    this.drawn = Date.now();
    const { jobs, readings } = this;
    this.jobs = [];
    this.readings = [];
    if (readings.length) this.client.setQueryData<Device[]>(["devices"], withRows(readings, "uuid"));
    if (!jobs.length) return;
    for (const query of this.client.getQueryCache().findAll({ queryKey: ["jobs"], type: "active" })) {
      const filter = query.queryKey[1];
      if (typeof filter !== "object" || filter === null || !Array.isArray(query.state.data)) continue;
      this.client.setQueryData<Job[]>(query.queryKey, withJobs(jobs, filter as JobFilter));
    }
  }
}
