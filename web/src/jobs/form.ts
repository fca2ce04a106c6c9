/** The form of a new job: what a person fills in, and the submission that it makes. */
import type { Schemas } from "../api/client";
import type { JobDetail } from "../api/queries";
import { NOT_A_DURATION, NOT_A_SIZE, parseDurationS, parseMemoryMib } from "../format/quantities";
import { duration } from "../format/times";
import { memory, share } from "../format/units";
import { NotReadable, parseArray, parseParams } from "./arrays";
import { commandLine, quoted, wordsOf } from "./commandLine";

export const FIELDS = [
  "command",
  "script",
  "gpus",
  "memory",
  "model",
  "resources",
  "time",
  "name",
  "queue",
  "project",
  "priority",
  "workdir",
  "env",
  "array",
  "params",
] as const;
export type FieldName = (typeof FIELDS)[number];

export type JobForm = Record<FieldName, string> & { runs: "command" | "script" };

export const EMPTY: JobForm = {
  runs: "command",
  command: "",
  script: "#!/bin/bash\n",
  gpus: "1",
  memory: "",
  model: "",
  resources: "",
  time: "",
  name: "",
  queue: "",
  project: "",
  priority: "",
  workdir: "",
  env: "",
  array: "",
  params: "",
};

export type FormErrors = Partial<Record<FieldName, string>>;

export interface Made {
  /** Null while a field cannot be read, or nothing is to run yet. */
  submission: Schemas["Submission"] | null;
  errors: FormErrors;
}

/** The submission that a form makes, or what is wrong in which field. The server checks all the rest. */
export function submissionOf(form: JobForm): Made {
  const errors: FormErrors = {};
  const read = <T>(field: FieldName, reader: (text: string) => T | null, otherwise: string): T | null => {
    if (!form[field].trim()) return null;
    try {
      const value = reader(form[field].trim());
      if (value !== null) return value;
      errors[field] = otherwise;
    } catch (error) {
      if (!(error instanceof NotReadable)) throw error;
      errors[field] = error.message;
    }
    return null;
  };
  const words = read("command", wordsOf, "A quote is not closed.");
  const memoryMib = read("memory", parseMemoryMib, NOT_A_SIZE);
  const timeS = read("time", parseDurationS, NOT_A_DURATION);
  const priority = read(
    "priority",
    (text) => (/^-?\d{1,9}$/.test(text) ? Number(text) : null),
    "Write a number.",
  );
  const env = read("env", parseEnv, "Write a line NAME=VALUE for each variable.") ?? {};
  const array = read("array", parseArray, "");
  const params = read("params", parseParams, "");
  if (array && params) errors.params = "An array has indices or parameters; empty one of the two.";
  const resources = read("resources", parseResources, "Write NAME=AMOUNT, with commas between several.");
  if (resources && (form.memory.trim() || ![EMPTY.gpus, ""].includes(form.gpus.trim())))
    errors.resources =
      "Resource names already set the GPUs. Empty this field, or leave GPUs and memory at their defaults.";
  const script = form.runs === "script";
  const runs = script ? scriptCommand(form.script) : words;
  if (script && !runs)
    errors.script = "Begin it with a line such as #!/bin/bash, which names its interpreter.";
  if (Object.keys(errors).length || !runs?.length) return { submission: null, errors };
  return {
    errors,
    submission: {
      command: runs,
      script,
      request: { ...(resources ? {} : devicesOf(form, memoryMib)), models: modelsOf(form.model) },
      ...(resources ? { resources } : {}),
      name: form.name.trim() || (script ? "script" : ""),
      ...(form.queue.trim() ? { queue: form.queue.trim() } : {}),
      ...(form.project.trim() ? { project: form.project.trim() } : {}),
      ...(form.workdir.trim() ? { workdir: form.workdir.trim() } : {}),
      time_limit_s: timeS,
      priority,
      env: script ? { ...env, [KEPT_IN]: form.script } : env,
      array,
      sweep: params && { params },
    },
  };
}

const KEPT_IN = "CORRAL_SCRIPT";
/** As `corral submit -` has it: others see the commands of jobs, and not their variables. */
const RUN_KEPT = (interpreter: string) =>
  `printf %s "$CORRAL_SCRIPT" > "$CORRAL_SCRATCH/script" && unset CORRAL_SCRIPT && exec ${interpreter} "$CORRAL_SCRATCH/script" "$@"`;

/** The command that runs a script with the program that its first line names; null where it names none. */
function scriptCommand(text: string): string[] | null {
  const named = /^#![ \t]*(\S+)(?:[ \t]+([^\n]*\S))?/.exec(text);
  if (!named?.[1]) return null;
  const interpreter = [named[1], named[2]].filter((word) => word !== undefined).map(quoted);
  return ["sh", "-c", RUN_KEPT(interpreter.join(" ")), "script"];
}

/** GPUs in number or part; memory alone asks for the part of a GPU that it comes to. */
function devicesOf(form: JobForm, memoryMib: number | null): Schemas["Request"] {
  const gpus = form.gpus.trim();
  if (memoryMib === null) return { gpus: gpus || "1" };
  if (gpus) return { gpus, memory_mib: memoryMib };
  return { devices: 1, share_milli: 10, share_of_memory: true, memory_mib: memoryMib };
}

function modelsOf(text: string): string[] {
  return text
    .split(",")
    .map((name) => name.trim())
    .filter(Boolean);
}

/** Amounts by name; a name alone stands for its default. */
function parseResources(text: string): Record<string, string> | null {
  const words = text.split(",").map((word) => word.trim());
  const pairs = words.filter(Boolean).map((word) => {
    const [name, ...amount] = word.split("=");
    return [name?.trim() ?? "", amount.join("=").trim()] as const;
  });
  return pairs.every(([name]) => name) ? Object.fromEntries(pairs) : null;
}

function parseEnv(text: string): Record<string, string> | null {
  const variables: [string, string][] = [];
  for (const line of text.split("\n").filter((each) => each.trim())) {
    const equals = line.indexOf("=");
    if (equals < 1) return null;
    variables.push([line.slice(0, equals).trim(), line.slice(equals + 1)]);
  }
  return Object.fromEntries(variables);
}

/** The server's names of fields that have another one in the form. */
const SERVER_NAMES: Record<string, FieldName> = {
  devices: "gpus",
  share_milli: "gpus",
  split_milli: "gpus",
  memory_mib: "memory",
  models: "model",
  time_limit_s: "time",
  nice: "priority",
  sweep: "params",
};

/** In which field of the form stands what the server refused; null where there is none for it. */
export function fieldOf(serverField: string | null, form: JobForm): FieldName | null {
  if (serverField && Object.hasOwn(parseResources(form.resources) ?? {}, serverField)) return "resources";
  const last = serverField?.replace(/^request\./, "").split(/[.[]/, 1)[0] ?? "";
  const name = SERVER_NAMES[last] ?? FIELDS.find((field) => field === last) ?? null;
  return name === "command" && form.runs === "script" ? "script" : name;
}

/** A form as another job was submitted. Its environment is its user's secret, and is not told. */
export function formLike(job: Pick<JobDetail, "spec" | "command" | "request">): JobForm {
  const text = (from: Record<string, unknown>, field: string) => {
    const value = from[field];
    return typeof value === "string" ? value : typeof value === "number" ? String(value) : "";
  };
  const milli = job.request.split_milli ?? job.request.share_milli;
  const parts = typeof milli === "number" && (job.request.split_milli != null || milli < 1000);
  const timeS = job.spec.time_limit_s;
  const mib = job.request.memory_mib;
  // A script is in the environment.
  const script = job.command[2]?.includes(`$${KEPT_IN}`) ?? false;
  const ofMemory = job.request.share_of_memory === true;
  return {
    ...EMPTY,
    runs: script ? "script" : "command",
    command: script ? "" : commandLine(job.command),
    gpus: ofMemory ? "" : parts ? share(milli) : text(job.request, "devices"),
    memory: typeof mib === "number" ? memory(mib) : "",
    model: Array.isArray(job.request.models) ? job.request.models.join(",") : "",
    time: typeof timeS === "number" ? duration(timeS) : "",
    name: text(job.spec, "name"),
    queue: text(job.spec, "queue"),
    project: text(job.spec, "project"),
    priority: text(job.spec, "priority"),
    workdir: text(job.spec, "workdir"),
  };
}
