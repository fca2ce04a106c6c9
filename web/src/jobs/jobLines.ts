/** The lines of a list of jobs: one for each job, and one for all listed elements of an array, which opens. Pure. */
import type { Job, Phase } from "../api/queries";

export interface JobLine {
  key: string;
  /** Of an array the element that speaks for it: the next to start, else the first. */
  job: Job;
  /** Of an array, by their indices. */
  elements: readonly Job[] | null;
  /** Whether the elements stand below it. */
  open: boolean;
  /** Whether it is an element below its array. */
  below: boolean;
}

const ORDER: Phase[] = [
  "RUNNING",
  "STARTING",
  "STOPPING",
  "PENDING",
  "FAILED",
  "LOST",
  "TIMED_OUT",
  "CANCELLED",
  "SUCCEEDED",
];

/**
 * Makes lines of listings. A job that is the same object as before has the same line, so that it is not drawn anew;
 * so has an array whose elements are.
 */
export class JobLines {
  private readonly alone = new WeakMap<Job, JobLine>();
  private readonly under = new WeakMap<Job, JobLine>();
  private arrays = new Map<string, JobLine>();

  /** Each array stands where its first listed element does. Of those with a key in `open` the elements are shown. */
  of(jobs: readonly Job[], open: ReadonlySet<string>): JobLine[] {
    const arrays = new Map<string, Job[]>();
    for (const job of jobs) {
      if (job.array_id == null) continue;
      const known = arrays.get(job.array_id);
      if (known) known.push(job);
      else arrays.set(job.array_id, [job]);
    }
    const made = new Map<string, JobLine>();
    const lines = jobs.flatMap((job) => {
      const elements = job.array_id == null ? undefined : arrays.get(job.array_id);
      if (!elements || elements.length === 1) return [this.single(job, this.alone, false)];
      if (elements[0] !== job || job.array_id == null) return [];
      const line = this.array(`array ${job.array_id}`, elements, open);
      made.set(line.key, line);
      return [line];
    });
    this.arrays = made;
    return lines;
  }

  /** The lines below one: of an open array its elements. */
  readonly below = (line: JobLine): readonly JobLine[] =>
    line.open && line.elements ? line.elements.map((job) => this.single(job, this.under, true)) : [];

  private single(job: Job, kept: WeakMap<Job, JobLine>, below: boolean): JobLine {
    const known = kept.get(job);
    if (known) return known;
    const line = { key: job.id, job, elements: null, open: false, below };
    kept.set(job, line);
    return line;
  }

  private array(key: string, listed: readonly Job[], open: ReadonlySet<string>): JobLine {
    const elements = [...listed].sort((a, b) => (a.array_index ?? 0) - (b.array_index ?? 0));
    const before = this.arrays.get(key);
    const same =
      before?.elements?.length === elements.length &&
      before.elements.every((job, at) => job === elements[at]);
    if (before && same && before.open === open.has(key)) return before;
    const job = elements.find((each) => each.phase === "PENDING") ?? (elements[0] as Job);
    return { key, job, elements, open: open.has(key), below: false };
  }
}

/** How many jobs are in which phase, those that run first. */
export function countedPhases(jobs: readonly Job[]): [Phase, number][] {
  const counts = new Map<Phase, number>();
  for (const { phase } of jobs) counts.set(phase, (counts.get(phase) ?? 0) + 1);
  return ORDER.flatMap((phase) => {
    const count = counts.get(phase);
    return count ? [[phase, count] as [Phase, number]] : [];
  });
}

/** What all jobs have in common, null where they differ. */
export function common<V>(jobs: readonly Job[], value: (job: Job) => V): V | null {
  const [first, ...others] = jobs.map(value);
  return first !== undefined && others.every((each) => each === first) ? first : null;
}
