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

  constructor(private readonly client: QueryClient) {}

  /** Have the listings whose keys begin so read again. */
  renew(key: string): void {
    if (this.due.has(key)) return;
    const wait = Math.max(SOON_MS, (this.earliest.get(key) ?? 0) - Date.now());
    this.due.set(
      key,
      window.setTimeout(() => this.read(key), wait),
    );
  }

  close(): void {
    for (const timer of this.due.values()) window.clearTimeout(timer);
    this.due.clear();
  }

  private read(key: string): void {
    this.due.delete(key);
    // Nothing is asked for while the last answer is on its way: under steady news none would ever arrive.
    this.earliest.set(key, Date.now() + MOST_MS);
    const began = Date.now();
    void this.client.invalidateQueries({ queryKey: [key] }, { cancelRefetch: false }).then(() => {
      this.earliest.set(key, Math.max(Date.now(), began + this.pause(key)));
    });
  }

  private pause(key: string): number {
    const rows = this.client
      .getQueriesData<unknown>({ queryKey: [key], type: "active" })
      .reduce((most, [, data]) => Math.max(most, Array.isArray(data) ? data.length : 0), 0);
    return Math.min(MOST_MS, Math.max(LEAST_MS, rows * MS_A_ROW));
  }
}
