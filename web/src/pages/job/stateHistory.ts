/** What became of a job, step by step, from what the server tells of it. */
import type { JobDetail } from "../../api/queries";

export interface Step {
  at: number;
  what: string;
  /** Words of the server, or of a user. */
  more: string | null;
}

type Told = Pick<
  JobDetail,
  "submitted_at" | "begin_at" | "ended_at" | "phase" | "reason" | "history" | "held" | "attempts"
>;

/** The steps, the oldest first. A step whose time is not known is left out. */
export function stateHistory(job: Told): Step[] {
  const steps: Step[] = [];
  const add = (at: number | null | undefined, what: string, more: string | null = null) => {
    if (at != null) steps.push({ at, what, more });
  };
  add(job.submitted_at, "submitted");
  for (const attempt of job.history) {
    const where = attempt.nodes.join(", ") || attempt.node;
    add(attempt.allocated_at, "got its devices", where || null);
    add(attempt.started_at, `started, attempt ${attempt.attempt}`);
    add(attempt.ended_at, attempt.ended_as?.replaceAll("_", " ") ?? "ended", attempt.reason);
  }
  const last = job.history.at(-1)?.ended_at;
  // Of a job that ended without running there is no attempt to tell of it.
  if (job.ended_at != null && (last == null || last < job.ended_at - 1))
    add(job.ended_at, job.phase.replaceAll("_", " ").toLowerCase(), job.reason);
  return steps.sort((a, b) => a.at - b.at);
}
