/** What a person changes of a job, as the server takes it. */
import type { Schemas } from "../../api/client";
import type { JobDetail } from "../../api/queries";
import { parseDurationS } from "../../format/quantities";
import { duration } from "../../format/times";

export interface Changes {
  priority: string;
  time: string;
  name: string;
  queue: string;
}

interface Found {
  body: Schemas["JobUpdate"];
  priorityIsWrong: boolean;
  timeIsWrong: boolean;
}

/** Only what differs from what the job has: the rest is left to whoever else changes it. */
export function changesOf(
  job: Pick<JobDetail, "priority" | "time_limit_s" | "name" | "queue">,
  given: Changes,
): Found {
  const body: Schemas["JobUpdate"] = {};
  const priorityIsWrong = !/^-?\d{1,9}$/.test(given.priority.trim());
  const priority = Number(given.priority);
  if (!priorityIsWrong && priority !== job.priority) body.priority = priority;
  const before = job.time_limit_s == null ? "" : duration(job.time_limit_s);
  const timeS = given.time.trim() === before ? null : parseDurationS(given.time);
  // A limit can be changed and not taken away: an empty field is one that cannot be read.
  const timeIsWrong = given.time.trim() !== before && timeS === null;
  if (timeS !== null) body.time_limit_s = timeS;
  if (given.name !== job.name) body.name = given.name;
  if (given.queue.trim() && given.queue.trim() !== job.queue) body.queue = given.queue.trim();
  return { body, priorityIsWrong, timeIsWrong };
}
