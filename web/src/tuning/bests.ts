import type { BestOnModel, Findings } from "../api/taskQueries";

/** The best combination on each model of GPU; none while no experiment has a score. */
export function bestsOf(findings: Findings): BestOnModel[] {
  const { best_id, default_id, gain, sureness, measured_by, ties, figures, command } = findings;
  if (best_id == null) return [...findings.by_gpu_model];
  const said = { gain: gain ?? "", sureness: sureness ?? "", command: command ?? "" };
  return [{ gpu_model: null, best_id, default_id, measured_by, ties, figures, ...said }];
}
