/** What was measured of an experiment, as far as it is what it should be: whoever runs a task writes it. Pure. */
import type { Schemas } from "../api/client";
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

/**
 * What the GPUs were like over all levels, where the tuner has read them itself, as the history of a job has it; null where
 * it has not.
 */
export function courseOf(metrics: unknown): Schemas["JobGpusHistory"] | null {
  const results = isObject(metrics) && Array.isArray(metrics.raw_results) ? metrics.raw_results : [];
  const courses = results.filter(isObject).flatMap(({ gpu_course: course }) => {
    if (!isObject(course)) return [];
    const { from, to, step_s: stepS } = numbersOf(course);
    const usable = from !== undefined && to !== undefined && stepS !== undefined && stepS > 0 && from < to;
    return usable && Array.isArray(course.gpus)
      ? [{ from, to, stepS, gpus: course.gpus.filter(isObject) }]
      : [];
  });
  const gpus = new Map<
    string,
    Schemas["JobGpuHistory"] & { series: Record<string, Schemas["HistoryPoint"][]> }
  >();
  for (const { from, stepS, gpus: read } of courses)
    for (const one of read) {
      if (typeof one.label !== "string" || !isObject(one.means)) continue;
      const name = typeof one.name === "string" ? one.name : null;
      const memoryMib = typeof one.memory_mib === "number" ? one.memory_mib : null;
      const known = gpus.get(one.label) ?? { label: one.label, name, memory_mib: memoryMib, series: {} };
      gpus.set(one.label, known);
      for (const [series, means] of Object.entries(one.means))
        (known.series[series] ??= []).push(...pointsOf(means, from, stepS));
    }
  if (!gpus.size) return null;
  return {
    id: "",
    from: Math.min(...courses.map(({ from }) => from)),
    to: Math.max(...courses.map(({ to }) => to)),
    step_s: Math.max(...courses.map(({ stepS }) => stepS)),
    gpus: [...gpus.values()],
    series: {},
  };
}

function pointsOf(means: unknown, from: number, stepS: number): Schemas["HistoryPoint"][] {
  return (Array.isArray(means) ? means : []).flatMap((pair: unknown) => {
    const [step, mean] = Array.isArray(pair) ? (pair as unknown[]) : [];
    if (typeof step !== "number" || typeof mean !== "number") return [];
    return [{ t: from + step * stepS, min: mean, mean, max: mean, p95: mean, coverage: 1 }];
  });
}
