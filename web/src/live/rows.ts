/** Rows of listings with what events say of them. Pure. */
import type { Job, JobFilter } from "../api/queries";
import { UNTOLD } from "../api/untold";

export type Row = Record<string, unknown>;

/** Rows with the fields of those in `news` that have their key. Rows that there are not stay out. */
export function withRows<T extends object>(news: readonly Row[], key: string) {
  const byKey = merged(news, key);
  return (known: T[] | undefined): T[] | undefined => {
    if (!known || !byKey.size) return known;
    let changed = false;
    const rows = known.map((row) => {
      const fields = byKey.get((row as Row)[key]);
      if (!fields) return row;
      changed = true;
      return { ...row, ...fields };
    });
    return changed ? rows : known;
  };
}

/** A listing of jobs with these changes: new ones come in, and go out once they are none of those it is of. */
export function withJobs(news: readonly Row[], filter: JobFilter) {
  const patch = withRows<Job>(news, "id");
  const whole = takesAnyJob(filter) ? [...merged(news, "id").values()].filter(isWhole) : [];
  const belongs = belongingTo(filter);
  return (known: Job[] | undefined): Job[] | undefined => {
    if (!known || !news.length) return known;
    const ids = new Set(whole.length ? known.map((job) => job.id) : []);
    const added = whole
      .filter((row) => !ids.has(row.id as string))
      .map((row) => ({ ...UNTOLD, ...row }) as unknown as Job);
    const newestFirst = (known[0]?.sequence ?? 0) > (known.at(-1)?.sequence ?? 0);
    const patched = patch(known) ?? known;
    const rows = !added.length
      ? patched
      : newestFirst
        ? [...added.reverse(), ...patched]
        : [...patched, ...added];
    if (rows === known) return known;
    return rows.every(belongs) ? rows : rows.filter(belongs);
  };
}

/** The last word on each row, of several that are about it. */
function merged(news: readonly Row[], key: string): Map<unknown, Row> {
  const byKey = new Map<unknown, Row>();
  for (const row of news) byKey.set(row[key], { ...byKey.get(row[key]), ...row });
  return byKey;
}

/** Events of jobs that were submitted have the whole row, those of changes what is new. */
const isWhole = (row: Row): boolean => "submitted_at" in row && "priority" in row && "phase" in row;

/** Which others it takes the server alone knows. */
const takesAnyJob = (filter: JobFilter): boolean =>
  Object.entries(filter).every(
    ([name, value]) => name === "all" || name === "limit" || value === undefined || value === "",
  );

const belongingTo = (filter: JobFilter): ((job: Job) => boolean) => {
  const phases = filter.phase?.split(",");
  return (job) => Boolean(filter.all || job.ended_at == null) && (!phases || phases.includes(job.phase));
};
