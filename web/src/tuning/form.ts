/** The form of a new task: what a person fills in, and the task that it makes. The server checks all the rest. */
import type { TuningSpec } from "../api/taskQueries";
import { NOT_A_DURATION, parseDurationS } from "../format/quantities";
import { NotReadable } from "../jobs/arrays";

export const FIELDS = [
  ...(["name", "model", "runtime", "mode", "parameters", "strategy", "objective", "iterations"] as const),
  ...(["parallelPresets", "quantPresets"] as const),
  ...(["parallel", "timeout", "wait", "scenarios", "concurrency", "minutes", "requests"] as const),
  ...(["ttft", "tpot", "p99", "queue", "project", "env"] as const),
  ...(["gpuModel", "node", "device", "minMemory", "label", "prefer", "exclusive"] as const),
] as const;
export type FieldName = (typeof FIELDS)[number];
export type TaskForm = Record<FieldName, string>;
export type FormErrors = Partial<Record<FieldName, string>>;

export const MODES = ["process", "docker", "ome", "kserve"] as const;
export const STRATEGIES = {
  grid_search: "grid search: every combination, in order",
  random: "random: combinations drawn at random",
  bayesian: "bayesian: what Optuna's sampler expects most of",
  racing: "racing: short probes, and only the leaders measured whole",
} as const;
export const OBJECTIVES = {
  maximize_throughput: "most tokens/s per GPU",
  minimize_latency: "least latency",
  minimize_ttft: "least time to first token",
  minimize_tpot: "least time per output token",
  minimize_energy: "least energy per output token",
} as const;

export const EMPTY: TaskForm = {
  name: "",
  model: "",
  runtime: "vllm",
  mode: "process",
  parameters: "",
  parallelPresets: "",
  quantPresets: "",
  strategy: "grid_search",
  objective: "maximize_throughput",
  iterations: "",
  parallel: "1",
  timeout: "30m",
  wait: "",
  scenarios: "D(1000,200)",
  concurrency: "1, 8, 32",
  minutes: "2",
  requests: "500",
  ttft: "",
  tpot: "",
  p99: "",
  queue: "",
  project: "",
  env: "",
  gpuModel: "",
  node: "",
  device: "",
  minMemory: "",
  label: "",
  prefer: "",
  exclusive: "",
};

/** Typed values for a start, by what they are about; the names are those of both engines' own flags. */
export const STARTS: readonly { name: string; runtime: string; parameters: string }[] = [
  {
    name: "vLLM: GPUs and batch",
    runtime: "vllm",
    parameters: "tensor-parallel-size=1,2,4\nmax-num-seqs=64,128,256",
  },
  {
    name: "vLLM: memory and chunks",
    runtime: "vllm",
    parameters: "gpu-memory-utilization=0.85,0.9,0.95\nmax-num-batched-tokens=2048,4096,8192,16384",
  },
  {
    name: "SGLang: GPUs and memory",
    runtime: "sglang",
    parameters: "tp-size=1,2,4\nmem-fraction-static=0.8,0.85,0.9",
  },
  {
    name: "SGLang: chunks and order",
    runtime: "sglang",
    parameters: "chunked-prefill-size=2048,4096,8192\nschedule-policy=lpm,fcfs",
  },
];

/** The task that a form makes; null with what is wrong in which field. */
export function specOf(form: TaskForm): { spec: TuningSpec | null; errors: FormErrors } {
  const errors: FormErrors = {};
  const read = <T>(field: FieldName, reader: (text: string) => T): T | undefined => {
    const text = form[field].trim();
    if (!text) return undefined;
    try {
      return reader(text);
    } catch (error) {
      if (!(error instanceof NotReadable)) throw error;
      errors[field] = error.message;
      return undefined;
    }
  };
  const parameters = read("parameters", parseParameters) ?? {};
  const iterations = read("iterations", wholeNumber);
  const timeout = read("timeout", seconds);
  const wait = read("wait", seconds);
  const benchmark = {
    traffic_scenarios: lines(form.scenarios),
    num_concurrency: read("concurrency", (text) => words(text).map(wholeNumber)) ?? [],
    ...given("max_time_per_iteration", read("minutes", number)),
    ...given("max_requests_per_iteration", read("requests", wholeNumber)),
  };
  const slo = {
    ...limit("ttft", read("ttft", number)),
    ...limit("tpot", read("tpot", number)),
    ...(form.p99.trim() ? { latency: limit("p99", read("p99", number)) } : {}),
  };
  const env = read("env", variables) ?? {};
  const gpus = {
    ...given("gpu_model", read("gpuModel", alone)),
    ...given("node", read("node", alone)),
    ...given("device", read("device", words)),
    ...given("min_memory", form.minMemory.trim() || undefined),
    ...given("label", read("label", labels)),
    ...given("prefer", read("prefer", labels)),
    ...(form.exclusive ? { exclusive: true } : {}),
  };
  const parallel = read("parallel", wholeNumber) ?? 1;
  const presets = {
    ...chosenPresets("parallel_config", form.parallelPresets),
    ...chosenPresets("quant_config", form.quantPresets),
  };
  const something = Object.keys(parameters).length > 0 || Object.keys(presets).length > 0;
  if (Object.keys(errors).length || !form.model.trim() || !something) return { spec: null, errors };
  return {
    errors,
    spec: {
      task_name: form.name.trim() || nameOf(form.model),
      model: { id_or_path: form.model.trim() },
      base_runtime: form.runtime.trim(),
      ...(form.mode === "process" ? {} : { deployment_mode: form.mode as (typeof MODES)[number] }),
      parameters,
      ...presets,
      optimization: {
        strategy: form.strategy,
        objective: form.objective,
        ...given("max_iterations", iterations),
        ...given("timeout_per_iteration", timeout),
      },
      benchmark,
      ...(Object.keys(slo).length ? { slo } : {}),
      max_parallel: parallel,
      ...given("gpu_wait_timeout_s", wait),
      ...(form.queue.trim() ? { queue: form.queue.trim() } : {}),
      ...(form.project.trim() ? { project: form.project.trim() } : {}),
      ...(Object.keys(env).length ? { env } : {}),
      ...gpus,
    },
  };
}

/** Lines "tp-size=1,2,4", "max-num-seqs=1..256 log" and "fraction=0.8..0.95". Throws `NotReadable`. */
export function parseParameters(text: string): Record<string, unknown> {
  const found = new Map<string, unknown>();
  for (const line of lines(text)) {
    const equals = line.indexOf("=");
    const name = line.slice(0, equals).trim();
    if (equals < 0 || !name)
      throw new NotReadable("Write a line for each parameter, such as max-num-seqs=64,128.");
    if (found.has(name)) throw new NotReadable(`${name} is given twice.`);
    const values = line.slice(equals + 1).trim();
    if (!values) throw new NotReadable(`${name} has no value.`);
    found.set(name, rangeOf(values) ?? values.split(",").map((value) => typed(name, value.trim())));
  }
  // Not an object literal: "__proto__" is a name like any other.
  return Object.fromEntries(found);
}

const RANGE = /^(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?)(\s+log)?$/;

function rangeOf(text: string) {
  const found = RANGE.exec(text);
  if (!found) return null;
  const [, low = "", high = "", log] = found;
  const whole = !low.includes(".") && !high.includes(".");
  const type = whole ? "integer" : "continuous";
  return { type, low: Number(low), high: Number(high), ...(log ? { log: true } : {}) };
}

function typed(name: string, text: string): string | number | boolean {
  if (!text) throw new NotReadable(`${name} has an empty value.`);
  if (text === "true" || text === "false") return text === "true";
  return /^-?\d+(\.\d+)?(e-?\d+)?$/i.test(text) ? Number(text) : text;
}

const lines = (text: string): string[] =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);

const words = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean);

/** A list that the server reads by itself, such as gpu-[01-03,07],gpu-12. */
const alone = (text: string): string[] => [text];

function number(text: string): number {
  if (!/^\d+(\.\d+)?$/.test(text)) throw new NotReadable("Write a number, such as 0.5.");
  return Number(text);
}

function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new NotReadable("Write a whole number.");
  return Number(text);
}

function seconds(text: string): number {
  const found = parseDurationS(text);
  if (found === null) throw new NotReadable(NOT_A_DURATION);
  return found;
}

function variables(text: string): Record<string, string> {
  return Object.fromEntries(
    lines(text).map((line) => {
      const equals = line.indexOf("=");
      if (equals < 1) throw new NotReadable("Write a line NAME=VALUE for each variable.");
      return [line.slice(0, equals).trim(), line.slice(equals + 1)];
    }),
  );
}

function labels(text: string): Record<string, string> {
  return Object.fromEntries(
    words(text).map((word) => {
      const equals = word.indexOf("=");
      if (equals < 1) throw new NotReadable("Write KEY=VALUE for each label, such as zone=a.");
      return [word.slice(0, equals), word.slice(equals + 1)];
    }),
  );
}

const chosenPresets = (group: string, names: string): Record<string, { presets: string[] }> =>
  names ? { [group]: { presets: names.split(",") } } : {};

/** The names of a field with one more, or without it. */
export function withPreset(names: string, name: string, chosen: boolean): string {
  const others = names.split(",").filter((known) => known && known !== name);
  return [...others, ...(chosen ? [name] : [])].join(",");
}

const given = <T>(name: string, value: T | undefined): Record<string, T> =>
  value === undefined ? {} : { [name]: value };

const limit = (name: string, threshold: number | undefined): Record<string, { threshold: number }> =>
  threshold === undefined ? {} : { [name]: { threshold } };

const nameOf = (model: string): string =>
  model.trim().replace(/\/+$/, "").split("/").at(-1)?.slice(0, 63) ?? "";

/** What is typed as the file of a task. */
export function readTask(text: string): { spec: TuningSpec | null; error: string | null } {
  if (!text.trim()) return { spec: null, error: null };
  try {
    const found: unknown = JSON.parse(text);
    if (typeof found === "object" && found !== null && !Array.isArray(found))
      return { spec: found as TuningSpec, error: null };
    return { spec: null, error: 'Write an object, such as {"task_name": "llama", …}.' };
  } catch (error) {
    return { spec: null, error: `This is not JSON: ${error instanceof Error ? error.message : ""}` };
  }
}

const PLACES: readonly [start: string, field: FieldName][] = [
  ["task_name", "name"],
  ["model", "model"],
  ["base_runtime", "runtime"],
  ["deployment_mode", "mode"],
  ["parameters", "parameters"],
  ["parallel_config", "parallelPresets"],
  ["quant_config", "quantPresets"],
  ["optimization.strategy", "strategy"],
  ["optimization.objective", "objective"],
  ["optimization.max_iterations", "iterations"],
  ["optimization.timeout_per_iteration", "timeout"],
  ["benchmark.traffic_scenarios", "scenarios"],
  ["benchmark.num_concurrency", "concurrency"],
  ["benchmark.max_time_per_iteration", "minutes"],
  ["benchmark.max_requests_per_iteration", "requests"],
  ["slo.ttft", "ttft"],
  ["slo.tpot", "tpot"],
  ["slo.latency", "p99"],
  ["max_parallel", "parallel"],
  ["gpu_wait_timeout_s", "wait"],
  ["queue", "queue"],
  ["project", "project"],
  ["env", "env"],
  ["gpu_model", "gpuModel"],
  ["node", "node"],
  ["device", "device"],
  ["min_memory", "minMemory"],
  ["label", "label"],
  ["prefer", "prefer"],
  ["exclusive", "exclusive"],
];

/** In which field of the form stands what the server refused; null where there is none for it. */
export function fieldOf(serverField: string | null): FieldName | null {
  if (serverField === null) return null;
  const at = (start: string) => serverField === start || /^[.[]/.test(serverField.slice(start.length));
  return PLACES.find(([start]) => serverField.startsWith(start) && at(start))?.[1] ?? null;
}
