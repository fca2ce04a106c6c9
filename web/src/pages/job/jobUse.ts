/** What a job asked for, beside what it used of that. */
import type { Device, JobDetail } from "../../api/queries";
import { duration } from "../../format/times";
import { memory, percent, UNKNOWN } from "../../format/units";

export interface UseRow {
  what: string;
  asked: string;
  used: string;
}

/** GPU-hours as the command line writes them: "1.25 h", "<0.01 h". */
export function hours(value: number): string {
  if (value > 0 && value < 0.01) return "<0.01 h";
  return `${Number(value.toFixed(2))} h`;
}

/** Rows of what is known; `ranS` is how long it ran, null where it did not. */
export function requestAgainstUse(job: JobDetail, devices: readonly Device[], ranS: number | null): UseRow[] {
  const rows: UseRow[] = [
    {
      what: "time",
      asked: job.time_limit_s == null ? "no limit" : duration(job.time_limit_s),
      used: duration(ranS),
    },
  ];
  if (!job.gpus_milli && !job.grant.length) return rows;
  const stats = Object.values(job.gpu_monitoring?.gpu_stats ?? {});
  const mean = meanOf(stats.map((gpu) => gpu.utilization?.mean));
  rows.push({
    what: "GPUs",
    asked: job.needs,
    used: mean == null ? UNKNOWN : `${percent(mean)} of the time`,
  });
  rows.push({
    what: "memory of a GPU",
    asked: memory(grantedMib(job, devices)),
    used: memory(mostOf(stats.map((gpu) => gpu.memory_used_mb?.max))),
  });
  if (job.use)
    rows.push({
      what: "GPU-hours",
      asked: hours(job.use.gpu_hours),
      used: hours(job.use.used_hours),
    });
  return rows;
}

/** The most memory that it has of one GPU, null where that is not known. */
function grantedMib(job: JobDetail, devices: readonly Device[]): number | null {
  const known = new Map(devices.map((device) => [device.uuid, device.memory_total_mib]));
  return mostOf(job.grant.map((granted) => granted.memory_mib ?? known.get(granted.uuid)));
}

function meanOf(values: readonly (number | null | undefined)[]): number | null {
  const known = values.filter((value) => value != null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}

function mostOf(values: readonly (number | null | undefined)[]): number | null {
  const known = values.filter((value) => value != null);
  return known.length ? Math.max(...known) : null;
}
