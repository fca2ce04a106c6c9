/** Reads listings again, soon after something happened, and more rarely the longer they are. */
import type { QueryClient } from "@tanstack/react-query";

/** What happens together is read together. */
const SOON_MS = 50;
const LEAST_MS = 400;
const MOST_MS = 10_000;
/** A listing of 10,000 rows is read each ten seconds, whatever happens; events change its rows meanwhile. */
const MS_A_ROW = 1;

export class Renewing {
  private readonly due = new Map<string, number>();
  private readonly earliest = new Map<string, number>();
  /** What is being read, and whether something has happened to it since. */
  private readonly reading = new Map<string, boolean>();

  private closed = false;

  constructor(private readonly client: QueryClient) {}

  /** Have read again what is kept under keys that begin so. */
  renew(...queryKey: readonly string[]): void {
    const key = JSON.stringify(queryKey);
    if (this.due.has(key)) return;
    // Under steady news no answer would ever arrive if each had it asked for anew. But it may be from before this.
    if (this.reading.has(key)) {
      this.reading.set(key, true);
      return;
    }
    const wait = Math.max(SOON_MS, (this.earliest.get(key) ?? 0) - performance.now());
    this.due.set(
      key,
      window.setTimeout(() => this.read(key, queryKey), wait),
    );
  }

  /** Read no more what is gone: not what is due, and not to its end what is being read. */
  forget(...queryKey: readonly string[]): void {
    const key = JSON.stringify(queryKey);
    window.clearTimeout(this.due.get(key));
    this.due.delete(key);
    if (this.reading.has(key)) this.reading.set(key, false);
    void this.client.cancelQueries({ queryKey });
  }

  close(): void {
    for (const timer of this.due.values()) window.clearTimeout(timer);
    this.due.clear();
    this.closed = true;
  }

  private read(key: string, queryKey: readonly string[]): void {
    this.due.delete(key);
    this.reading.set(key, false);
    const began = performance.now();
    void this.client.invalidateQueries({ queryKey }, { cancelRefetch: false }).then(() => {
      const again = this.reading.get(key);
      this.reading.delete(key);
      this.earliest.set(key, Math.max(performance.now(), began + this.pause(queryKey)));
      if (again && !this.closed) this.renew(...queryKey);
    });
  }

  private pause(queryKey: readonly string[]): number {
    const rows = this.client
      .getQueriesData<unknown>({ queryKey, type: "active" })
      .reduce((most, [, data]) => Math.max(most, Array.isArray(data) ? data.length : 0), 0);
    return Math.min(MOST_MS, Math.max(LEAST_MS, rows * MS_A_ROW));
  }
}
