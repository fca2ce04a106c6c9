/** The server's stream of events, followed until it is closed, also over restarts of the server. */

export interface LiveEvent {
  topic: string;
  what: string;
  id: number | null;
  at: number;
  rows: readonly Record<string, unknown>[];
  message: string | null;
}

export type Connection = "connecting" | "live" | "lost";

const TOPICS = ["jobs", "devices", "alerts", "tasks", "metrics"] as const;
const AGAIN_MS = [500, 1_000, 2_000, 5_000] as const;
/** The server says something every 15 s: a connection that is quiet for longer is broken, whatever it looks like. */
const SILENT_MS = 40_000;

/** Begins again behind the last event when the server was away. A WebSocket, for browsers allow six streams in all tabs. */
export class EventFollower {
  private socket: WebSocket | undefined;
  private timer: number | undefined;
  private last: number | null = null;
  private failures = 0;

  constructor(
    private readonly onEvents: (events: readonly LiveEvent[]) => void,
    private readonly onConnection: (connection: Connection) => void,
  ) {}

  open(): void {
    const after = this.last === null ? "" : `&after=${this.last}`;
    const socket = new WebSocket(
      `${window.location.origin.replace(/^http/, "ws")}/api/v1/events?topics=${TOPICS.join(",")}${after}`,
    );
    this.socket = socket;
    socket.onmessage = (message: MessageEvent<string>) => {
      if (this.socket === socket) this.take(JSON.parse(message.data) as LiveEvent[]);
    };
    socket.onclose = () => {
      if (this.socket === socket) this.again();
    };
    this.expectMore();
  }

  close(): void {
    window.clearTimeout(this.timer);
    const socket = this.socket;
    this.socket = undefined;
    socket?.close();
  }

  private take(events: readonly LiveEvent[]): void {
    for (const event of events) if (event.id !== null) this.last = event.id;
    this.failures = 0;
    this.expectMore();
    if (events.some((event) => event.topic === "hello")) this.onConnection("live");
    this.onEvents(events);
  }

  private expectMore(): void {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.again(), SILENT_MS);
  }

  private again(): void {
    this.close();
    const wait = AGAIN_MS[Math.min(this.failures, AGAIN_MS.length - 1)];
    this.failures += 1;
    this.onConnection("lost");
    this.timer = window.setTimeout(() => this.open(), wait);
  }
}
