/** How jobs meet on devices, and which devices a choice of it takes in. */

export const MEANS = ["pgpu", "vgpu", "mps", "timeslice", "hook", "mig"] as const;
export type MeansChoice = (typeof MEANS)[number];

export const MEANS_IN_WORDS: Record<MeansChoice, string> = {
  pgpu: "pGPU (exclusive)",
  vgpu: "vGPU (MPS, time slices, hook)",
  mps: "MPS",
  timeslice: "time slices",
  hook: "hook",
  mig: "MIG",
};

const TAKES_IN: Record<MeansChoice, readonly string[]> = {
  pgpu: ["exclusive"],
  vgpu: ["mps", "timeslice", "hook"],
  mps: ["mps"],
  timeslice: ["timeslice"],
  hook: ["hook"],
  mig: ["mig"],
};

/** How a job holds its GPUs. */
export const JOB_MEANS = ["exclusive", "mps", "timeslice", "hook", "mig"] as const;
export type Means = (typeof JOB_MEANS)[number];

export const JOB_MEANS_IN_WORDS: Record<Means, string> = {
  exclusive: "whole GPUs",
  mps: "MPS",
  timeslice: "time slices",
  hook: "hook",
  mig: "MIG",
};

export const isOfMeans = (means: string, choice: MeansChoice): boolean => TAKES_IN[choice].includes(means);
