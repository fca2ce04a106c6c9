/** Which colour goes with the state of a device, a phase, a severity. */
export type Tone = "good" | "busy" | "warn" | "bad" | "off";

const DEVICE: Record<string, Tone> = {
  free: "good",
  allocated: "busy",
  reserved: "busy",
  in_use: "warn",
  stale: "warn",
  cordoned: "off",
  suspect: "warn",
  probation: "warn",
  quarantined: "bad",
  unhealthy: "bad",
  unreadable: "bad",
};

const HEALTH: Record<string, Tone> = {
  healthy: "good",
  suspect: "warn",
  probation: "warn",
  quarantined: "bad",
};

const PHASE: Record<string, Tone> = {
  PENDING: "warn",
  STARTING: "busy",
  RUNNING: "busy",
  STOPPING: "warn",
  SUCCEEDED: "good",
  FAILED: "bad",
  LOST: "bad",
  TIMED_OUT: "bad",
  CANCELLED: "off",
};

const NODE: Record<string, Tone> = {
  ready: "good",
  silent: "bad",
  gone: "bad",
  draining: "warn",
  cordoned: "off",
};

const TASK: Record<string, Tone> = {
  pending: "off",
  running: "busy",
  deploying: "busy",
  benchmarking: "busy",
  completed: "good",
  success: "good",
  failed: "bad",
  cancelled: "off",
};

const SEVERITY: Record<string, Tone> = { critical: "bad", warning: "warn", info: "busy" };

export const deviceTone = (state: string): Tone => DEVICE[state] ?? "off";
export const healthTone = (health: string): Tone => HEALTH[health] ?? "off";
export const phaseTone = (phase: string): Tone => PHASE[phase] ?? "off";
/** Of a task of the autotuner, and of an experiment. */
export const taskTone = (status: string): Tone => TASK[status] ?? "off";
export const nodeTone = (state: string): Tone => NODE[state] ?? "off";
export const severityTone = (severity: string): Tone => SEVERITY[severity] ?? "off";

/** A word of the API as a person reads it: "in_use" is "in use". */
export const inWords = (word: string): string => word.replaceAll("_", " ").toLowerCase();
