/** What was measured of an experiment, as far as it is what it should be: whoever runs a task writes it. Pure. */
import type { JobDetail } from "../api/queries";

type GpuStats = NonNullable<JobDetail["gpu_monitoring"]>["gpu_stats"];

export interface Level {
  scenario: string;
  concurrency: number;
  /** By the names of `FIGURES`. */
  figures: Readonly<Record<string, number>>;
  requests: number | null;
  errors: number | null;
}

type Loose = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Loose =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The numbers among some metrics. */
export function numbersOf(metrics: unknown): Record<string, number> {
  if (!isObject(metrics)) return {};
  const found = Object.entries(metrics).filter(
    (entry): entry is [string, number] => typeof entry[1] === "number",
  );
  return Object.fromEntries(found);
}

/** Each scenario at each concurrency, in order. */
export function levelsOf(metrics: unknown): Level[] {
  const results = isObject(metrics) && Array.isArray(metrics.raw_results) ? metrics.raw_results : [];
  return results
    .filter(isObject)
    .map((level) => {
      const numbers = numbersOf(level);
      return {
        scenario: typeof level.scenario === "string" ? level.scenario : "",
        concurrency: numbers.num_concurrency ?? 0,
        figures: numbers,
        requests: numbers.num_requests ?? null,
        errors: numbers.num_error_requests ?? null,
      };
    })
    .sort((a, b) => a.scenario.localeCompare(b.scenario) || a.concurrency - b.concurrency);
}

export interface Monitoring {
  durationS: number;
  samples: number;
  stats: GpuStats;
}

const READINGS = [
  "utilization",
  "memory_used_mb",
  "memory_usage_percent",
  "temperature_c",
  "power_draw_w",
] as const;

/** What the GPUs were like while it was measured, null where nothing was read. */
export function monitoringOf(metrics: unknown): Monitoring | null {
  const told = isObject(metrics) ? metrics.gpu_monitoring : null;
  if (!isObject(told) || !isObject(told.gpu_stats)) return null;
  const numbers = numbersOf(told);
  const stats = Object.entries(told.gpu_stats).flatMap(([id, gpu]) =>
    isObject(gpu) ? [[id, gpuOf(gpu)] as const] : [],
  );
  if (!stats.length) return null;
  return {
    durationS: numbers.monitoring_duration_seconds ?? 0,
    samples: numbers.sample_count ?? 0,
    stats: Object.fromEntries(stats) as unknown as GpuStats,
  };
}

function gpuOf(gpu: Loose) {
  const ranges = READINGS.flatMap((name) => {
    const { min, mean, max } = numbersOf(gpu[name]);
    return min === undefined || mean === undefined || max === undefined ? [] : [[name, { min, mean, max }]];
  });
  return { name: typeof gpu.name === "string" ? gpu.name : null, ...Object.fromEntries(ranges) };
}
