/** How jobs meet on devices, and which devices a choice of it takes in. */

export const MEANS = ["pgpu", "vgpu", "mps", "timeslice", "mig"] as const;
export type MeansChoice = (typeof MEANS)[number];

export const MEANS_IN_WORDS: Record<MeansChoice, string> = {
  pgpu: "pGPU (exclusive)",
  vgpu: "vGPU (MPS, time slices)",
  mps: "MPS",
  timeslice: "time slices",
  mig: "MIG",
};

const TAKES_IN: Record<MeansChoice, readonly string[]> = {
  pgpu: ["exclusive"],
  vgpu: ["mps", "timeslice"],
  mps: ["mps"],
  timeslice: ["timeslice"],
  mig: ["mig"],
};

/** How a job holds its GPUs. */
export const JOB_MEANS = ["exclusive", "mps", "timeslice", "mig"] as const;
export type Means = (typeof JOB_MEANS)[number];

export const JOB_MEANS_IN_WORDS: Record<Means, string> = {
  exclusive: "whole GPUs",
  mps: "MPS",
  timeslice: "time slices",
  mig: "MIG",
};

export const isOfMeans = (means: string, choice: MeansChoice): boolean => TAKES_IN[choice].includes(means);
