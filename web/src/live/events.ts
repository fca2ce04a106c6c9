/** Keeps what the pages show in step with the server, by its stream of events. */
import type { QueryClient } from "@tanstack/react-query";
import type { Device, Job } from "../api/queries";
import { setServerNow } from "../format/times";

export interface LiveEvent {
  topic: string;
  what: string;
  id: number | null;
  at: number;
  rows: readonly Record<string, unknown>[];
  message: string | null;
}

const TOPICS = ["jobs", "devices", "alerts", "metrics"] as const;
const OF_THE_STREAM = ["hello", "ping", "reset", "overflow"] as const;
const AGAIN_MS = [500, 1_000, 2_000, 5_000] as const;
/** Listings are read again at most so often, however much happens. */
const RENEW_MS = 400;

export type Connection = "connecting" | "live" | "lost";

/** What the server says anew, and what it is read again for. */
const RENEWED: Record<string, readonly string[]> = {
  jobs: ["jobs", "job", "why", "queues", "devices", "alloc-map"],
  devices: ["devices", "nodes", "alloc-map"],
  alerts: ["alerts", "silences"],
};

/** Puts the fields of events into the rows that pages show, and notes which listings have to be read again. */
export class LiveRows {
  private readonly due = new Set<string>();
  private timer: number | undefined;

  constructor(private readonly client: QueryClient) {}

  take(event: LiveEvent): void {
    if (event.topic === "hello" || event.topic === "ping") setServerNow(event.at);
    if (event.topic === "reset") void this.client.invalidateQueries();
    if (event.topic === "metrics")
      this.client.setQueryData<Device[]>(["devices"], withRows(event.rows, "uuid"));
    if (event.topic === "jobs") {
      this.client.setQueriesData<Job[]>({ queryKey: ["jobs"] }, withRows(event.rows, "id"));
    }
    for (const key of RENEWED[event.topic] ?? []) this.renew(key);
  }

  private renew(key: string): void {
    this.due.add(key);
    this.timer ??= window.setTimeout(() => {
      this.timer = undefined;
      for (const due of this.due) void this.client.invalidateQueries({ queryKey: [due] });
      this.due.clear();
    }, RENEW_MS);
  }
}

/** Rows with the fields of those in `news` that have their key. Rows that there are not stay out. */
export function withRows<T extends object>(news: readonly Record<string, unknown>[], key: string) {
  const byKey = new Map(news.map((row) => [row[key], row]));
  return (known: T[] | undefined): T[] | undefined => {
    if (!known || !byKey.size) return known;
    let changed = false;
    const rows = known.map((row) => {
      const fields = byKey.get((row as Record<string, unknown>)[key]);
      if (!fields) return row;
      changed = true;
      return { ...row, ...fields };
    });
    return changed ? rows : known;
  };
}

/** Follows the events until it is closed, and begins again behind the last one when the server was away. */
export class EventFollower {
  private source: EventSource | undefined;
  private timer: number | undefined;
  private last: number | null = null;
  private failures = 0;

  constructor(
    private readonly onEvent: (event: LiveEvent) => void,
    private readonly onConnection: (connection: Connection) => void,
  ) {}

  open(): void {
    const after = this.last === null ? "" : `&after=${this.last}`;
    this.source = new EventSource(`/api/v1/events?topics=${TOPICS.join(",")}${after}`);
    for (const name of [...TOPICS, ...OF_THE_STREAM]) {
      this.source.addEventListener(name, (message) => this.take(message as MessageEvent<string>));
    }
    this.source.onerror = () => this.again();
  }

  close(): void {
    window.clearTimeout(this.timer);
    this.source?.close();
  }

  private take(message: MessageEvent<string>): void {
    const event = JSON.parse(message.data) as LiveEvent;
    if (event.id !== null) this.last = event.id;
    this.failures = 0;
    if (event.topic === "hello") this.onConnection("live");
    this.onEvent(event);
  }

  private again(): void {
    this.close();
    const wait = AGAIN_MS[Math.min(this.failures, AGAIN_MS.length - 1)];
    this.failures += 1;
    this.onConnection("lost");
    this.timer = window.setTimeout(() => this.open(), wait);
  }
}
