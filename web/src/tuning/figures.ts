/** What is shown of experiments in words and numbers. Pure. */
import type { Experiment, Task } from "../api/taskQueries";
import { visible } from "../components/UserText";
import { UNKNOWN } from "../format/units";

export interface Figure {
  name: string;
  label: string;
  /** "s" is shown in milliseconds below one second. */
  unit: "s" | "tokens/s" | "J";
  higherIsBetter: boolean;
}

export const FIGURES: readonly Figure[] = [
  {
    name: "mean_total_throughput_per_gpu",
    label: "Tokens/s per GPU",
    unit: "tokens/s",
    higherIsBetter: true,
  },
  { name: "mean_total_throughput", label: "Tokens/s", unit: "tokens/s", higherIsBetter: true },
  { name: "mean_output_throughput", label: "Output tokens/s", unit: "tokens/s", higherIsBetter: true },
  { name: "mean_ttft", label: "Time to first token", unit: "s", higherIsBetter: false },
  { name: "mean_tpot", label: "Time per output token", unit: "s", higherIsBetter: false },
  { name: "mean_e2e_latency", label: "Latency", unit: "s", higherIsBetter: false },
  { name: "p50_e2e_latency", label: "Latency, median", unit: "s", higherIsBetter: false },
  { name: "p90_e2e_latency", label: "Latency, 90 % below", unit: "s", higherIsBetter: false },
  { name: "p99_e2e_latency", label: "Latency, 99 % below", unit: "s", higherIsBetter: false },
  { name: "energy_per_output_token_j", label: "Energy per output token", unit: "J", higherIsBetter: false },
];

const OF_OBJECTIVE: Record<string, string> = {
  minimize_latency: "mean_e2e_latency",
  maximize_throughput: "mean_total_throughput_per_gpu",
  minimize_ttft: "mean_ttft",
  minimize_tpot: "mean_tpot",
  minimize_energy: "energy_per_output_token_j",
};

export const figureNamed = (name: string): Figure | undefined => FIGURES.find((known) => known.name === name);

/** What a task is to make best: of several objectives the first, by which the winner is named. */
export function objectiveOf(task: Pick<Task, "objective">): Figure {
  const [first] = /[a-z]+_[a-z]+/.exec(task.objective) ?? [""];
  const name = OF_OBJECTIVE[first] ?? "mean_e2e_latency";
  return FIGURES.find((known) => known.name === name) as Figure;
}

/** Seconds or tokens a second as people read them. */
export function figureText(value: number | null | undefined, figure: Pick<Figure, "unit">): string {
  if (value == null) return UNKNOWN;
  if (figure.unit === "tokens/s")
    return value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 2 : 0 });
  if (figure.unit === "J") return `${Number(value.toPrecision(3))} J`;
  if (Math.abs(value) < 1) return `${Number((1000 * value).toPrecision(3))} ms`;
  return `${Number(value.toPrecision(3))} s`;
}

/** A score as the objective has it: throughput is kept negated, because a lower score is better. */
export function scoreValue(score: number | null | undefined, objective: Figure): number | null {
  if (score == null) return null;
  return objective.higherIsBetter ? -score : score;
}

export const scoreText = (score: number | null | undefined, objective: Figure): string =>
  figureText(scoreValue(score, objective), objective);

/** The name of a parameter without the group that the search puts before it. */
export const parameterName = (name: string): string =>
  visible(name.replace(/^__(parallel|quant)__preset$/, "$1 preset").replace(/^__(parallel|quant)__/, ""));

export function valueText(value: unknown): string {
  if (value === undefined) return UNKNOWN;
  if (typeof value === "number") return String(Number(value.toPrecision(6)));
  return visible(typeof value === "string" ? value : JSON.stringify(value));
}

/** Such as "tp 2, max-num-seqs 16". */
export const parametersText = (parameters: Readonly<Record<string, unknown>>): string =>
  Object.entries(parameters)
    .map(([name, value]) => `${parameterName(name)} ${valueText(value)}`)
    .join(", ");

/** The GPUs as "2 (NVIDIA)": how many, and the first word of their model, or all of it. */
export function gpusText(
  { gpus, gpu_model }: Pick<Experiment, "gpus" | "gpu_model">,
  inFull = false,
): string {
  if (gpus == null) return "N/A";
  const word = inFull ? gpu_model?.trim() : gpu_model?.trim().split(/\s+/, 1)[0];
  return word ? `${gpus} (${visible(word)})` : String(gpus);
}

/** Whether these experiments ran on several models of GPU, so that their figures do not compare. */
export const onSeveralModels = (rows: readonly Experiment[]): boolean =>
  new Set(rows.filter((row) => row.gpus != null).map((row) => row.gpu_model)).size > 1;

/** How long something takes or took until now, null before it began. */
export function tookS(
  row: { started_at?: number | null; completed_at?: number | null },
  nowS: number,
): number | null {
  return row.started_at == null ? null : Math.max(0, (row.completed_at ?? nowS) - row.started_at);
}

export interface ScorePoint {
  row: Experiment;
  atS: number;
  value: number;
  /** The best value until then. */
  best: number;
}

/** The scores in the order in which they were found, each with the best so far. */
export function scorePoints(rows: readonly Experiment[], objective: Figure): ScorePoint[] {
  const scored = rows
    .filter((row) => row.status === "success" && row.objective_score != null && row.completed_at != null)
    .sort((a, b) => (a.completed_at ?? 0) - (b.completed_at ?? 0) || a.experiment_id - b.experiment_id);
  let best = Number.POSITIVE_INFINITY;
  return scored.map((row) => {
    best = Math.min(best, row.objective_score ?? best);
    return {
      row,
      atS: row.completed_at ?? 0,
      value: scoreValue(row.objective_score, objective) ?? 0,
      best: scoreValue(best, objective) ?? 0,
    };
  });
}

/** Parameters of which several values were tried, in the order of the first experiment that has them. */
export function variedParameters(rows: readonly Experiment[]): string[] {
  const values = new Map<string, Set<string>>();
  for (const { parameters } of rows)
    for (const [name, value] of Object.entries(parameters))
      values.set(name, (values.get(name) ?? new Set()).add(JSON.stringify(value)));
  return [...values].filter(([, found]) => found.size > 1).map(([name]) => name);
}
