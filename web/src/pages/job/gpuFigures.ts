/** What the GPU panel computes of the readings of a job. */
import type { Device, JobDetail } from "../../api/queries";
import type { Point } from "../../charts/timeSeries";

interface Range {
  min: number;
  mean: number;
  max: number;
}

export type Measured = Record<keyof Range, string>;

/** Mean, least and most in words, null where nothing was measured. */
export function measured(range: Range | null | undefined, words: (value: number) => string): Measured | null {
  return range ? { min: words(range.min), mean: words(range.mean), max: words(range.max) } : null;
}

/** MiB of all GPUs of a job together, null where that of one of them is not known. */
export function memoryTotalMib(job: Pick<JobDetail, "grant">, devices: readonly Device[]): number | null {
  const known = new Map(devices.map((device) => [device.uuid, device.memory_total_mib]));
  let sum = 0;
  for (const uuid of new Set(job.grant.map((granted) => granted.uuid))) {
    const total = known.get(uuid);
    if (!total) return null;
    sum += total;
  }
  return sum || null;
}

/** Points in MiB as percent of a whole; none where the whole is not known. */
export function inPercentOf(points: readonly Point[], totalMib: number | null): Point[] {
  if (totalMib === null) return [];
  const part = (value: number) => (100 * value) / totalMib;
  return points.map(({ t, min, mean, max }) => ({ t, min: part(min), mean: part(mean), max: part(max) }));
}
