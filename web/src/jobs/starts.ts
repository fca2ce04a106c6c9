/** Expected starts, which are asked for apart from the listing. */
import type { Job } from "../api/queries";

/**
 * Joins the starts that were foreseen to the jobs of a listing. A job of which nothing is new stays the same object from
 * call to call, so that its row is not drawn anew.
 */
export function joiningStarts(): (jobs: readonly Job[], foreseen: readonly Job[]) => readonly Job[] {
  const joined = new WeakMap<Job, Job>();
  return (jobs, foreseen) => {
    if (!foreseen.length) return jobs;
    const known = new Map(foreseen.map((job) => [job.id, job]));
    return jobs.map((job) => {
      const told = job.phase === "PENDING" ? known.get(job.id) : undefined;
      if (!told) return job;
      const { expected_start, expected_start_is } = told;
      const before = joined.get(job);
      if (before?.expected_start === expected_start && before?.expected_start_is === expected_start_is)
        return before;
      const now = { ...job, expected_start, expected_start_is };
      joined.set(job, now);
      return now;
    });
  };
}
