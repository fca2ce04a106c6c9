/** Which job had, has or is expected to have which device when: the rows and bars of the timeline. */
import type { Device, Job } from "../api/queries";
import { deviceName } from "../pool/deviceName";

export const TIMELINE_HOURS = ["1h", "6h", "24h"] as const;
export type TimelineHours = (typeof TIMELINE_HOURS)[number];

export type Certainty = "past" | "running" | "expected";

export interface Span {
  job: Job;
  /** Which of the rows it is in. */
  row: number;
  from: number;
  to: number;
  is: Certainty;
  /** Nobody knows when it ends: no time limit. */
  open: boolean;
  /** Thousandths of the device. */
  shareMilli: number;
}

export interface Timeline {
  rows: string[];
  spans: Span[];
  /** Jobs whose start is expected, on devices that cannot be told. */
  elsewhere: Job[];
}

const WHOLE = 1000;

/**
 * Bars of `jobs` between two moments. A waiting job stands on devices that are free by then, as far as time limits tell:
 * which devices it will get is decided when it starts.
 */
export function timelineOf(
  jobs: readonly Job[],
  devices: readonly Device[],
  { fromS, toS, nowS }: { fromS: number; toS: number; nowS: number },
): Timeline {
  const shown = devices.filter((device) => device.state !== "cut");
  const rowOf = new Map(shown.map((device, row) => [device.uuid, row]));
  const spans: Span[] = [];
  for (const job of jobs) {
    if (job.started_at == null) continue;
    const open = job.ended_at == null && job.time_limit_s == null;
    const to = job.ended_at ?? (job.time_limit_s == null ? toS : job.started_at + job.time_limit_s);
    if (to < fromS || job.started_at > toS) continue;
    for (const uuid of job.devices) {
      const row = rowOf.get(uuid);
      if (row === undefined) continue;
      const shareMilli = job.grants.find((grant) => grant.uuid === uuid)?.share_milli ?? WHOLE;
      const is = job.ended_at == null ? "running" : "past";
      // One that runs longer than its limit is about to be stopped.
      spans.push({
        job,
        row,
        from: job.started_at,
        to: open ? to : Math.max(to, is === "running" ? nowS : to),
        is,
        open,
        shareMilli,
      });
    }
  }
  const elsewhere = expect(jobs, shown, spans, toS);
  return { rows: shown.map(deviceName), spans, elsewhere };
}

/** Adds bars of the waiting jobs, in the order of their expected starts. Returns those that no devices were found for. */
function expect(jobs: readonly Job[], shown: readonly Device[], spans: Span[], toS: number): Job[] {
  const busyUntil = shown.map(() => Number.NEGATIVE_INFINITY);
  for (const span of spans) {
    if (span.is === "running")
      busyUntil[span.row] = Math.max(
        busyUntil[span.row] ?? 0,
        span.open ? Number.POSITIVE_INFINITY : span.to,
      );
  }
  const elsewhere: Job[] = [];
  const waiting = jobs
    .filter((job) => job.started_at == null && job.ended_at == null && job.expected_start != null)
    .sort((a, b) => (a.expected_start ?? 0) - (b.expected_start ?? 0));
  for (const job of waiting) {
    const from = job.expected_start ?? 0;
    if (from > toS) continue;
    const count = Math.ceil((job.gpus_milli ?? (job.gpus ?? 0) * WHOLE) / WHOLE);
    const chosen = count > 0 ? freeTogether(shown, busyUntil, from, count) : null;
    if (!chosen) {
      elsewhere.push(job);
      continue;
    }
    const open = job.time_limit_s == null;
    const to = open ? toS : from + (job.time_limit_s ?? 0);
    const shareMilli = Math.min(WHOLE, Math.round((job.gpus_milli ?? count * WHOLE) / count));
    for (const row of chosen) {
      spans.push({ job, row, from, to, is: "expected", open, shareMilli });
      busyUntil[row] = open ? Number.POSITIVE_INFINITY : to;
    }
  }
  return elsewhere;
}

/** Rows of so many devices of one node that are free at a moment, of the node where fewest others are; null for none. */
function freeTogether(
  shown: readonly Device[],
  busyUntil: readonly number[],
  at: number,
  count: number,
): number[] | null {
  const byNode = new Map<string | null, number[]>();
  shown.forEach((device, row) => {
    // Expected starts are rounded by the way that they are counted.
    if ((busyUntil[row] ?? 0) > at + 2 || !USABLE.includes(device.state)) return;
    byNode.set(device.node, [...(byNode.get(device.node) ?? []), row]);
  });
  const fitting = [...byNode.values()].filter((rows) => rows.length >= count);
  fitting.sort((a, b) => a.length - b.length);
  return fitting[0]?.slice(0, count) ?? null;
}

const USABLE = ["free", "allocated", "reserved", "in_use"];
