/** What the GPU panel computes of the readings of a job. */
import type { Schemas } from "../../api/client";
import type { Line, Point } from "../../charts/timeSeries";
import { visible } from "../../components/UserText";
import { shortModel } from "../../format/units";

export type JobGpus = Schemas["JobGpusHistory"];

const MEMORY = "memory_used_mib";

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

/**
 * A line for each GPU of a job; where the server told the spread of many, the most, the mean and the least of them. Memory
 * is in percent of the GPU's own, and none where that is not known.
 */
export function gpuLines({ gpus, series: spread }: JobGpus, series: string): Line[] {
  const lines = isSpread({ gpus, series: spread })
    ? spreadOver(scaled(spread[series] ?? [], series, sameMemory(gpus)))
    : gpus.map((gpu) => ({
        name: `GPU ${visible(gpu.label)}${gpu.name ? `: ${visible(shortModel(gpu.name))}` : ""}`,
        points: scaled(gpu.series[series] ?? [], series, gpu.memory_mib),
      }));
  return lines.some(({ points }) => points.length) ? lines : [];
}

/** Whether there are too many GPUs for a line each. */
export const isSpread = ({ series }: Pick<JobGpus, "gpus" | "series">): boolean =>
  Object.keys(series).length > 0;

function spreadOver(points: readonly Point[]): Line[] {
  const of = (name: string, value: (point: Point) => number): Line => ({
    name,
    points: points.map((point) => ({ ...point, mean: value(point) })),
  });
  return [
    of("most", (point) => point.max),
    of("mean", (point) => point.mean),
    of("least", (point) => point.min),
  ];
}

/** The memory that each has, null where they differ or it is not known. */
function sameMemory(gpus: JobGpus["gpus"]): number | null {
  const [memoryMib] = gpus.map((gpu) => gpu.memory_mib);
  return gpus.every((gpu) => gpu.memory_mib === memoryMib) ? (memoryMib ?? null) : null;
}

function scaled(points: readonly Point[], series: string, memoryMib: number | null): readonly Point[] {
  if (series !== MEMORY) return points;
  if (!memoryMib) return [];
  const part = (value: number) => (100 * value) / memoryMib;
  return points.map(({ t, min, mean, max }) => ({ t, min: part(min), mean: part(mean), max: part(max) }));
}
