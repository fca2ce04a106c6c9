/** What events say of tasks of the autotuner and of their experiments. Pure. */
import type { Experiment, Task } from "../api/taskQueries";
import type { LiveEvent } from "./events";
import type { Row } from "./rows";

/** The experiments with what is new of them: new ones come in by their number, the others keep their rows. */
export function withExperiments({ cleared, rows: news }: ExperimentNews) {
  return (known: Experiment[] | undefined): Experiment[] | undefined => {
    if (!known) return known;
    const fresh = new Map(news.map((row) => [row.id, row as unknown as Experiment]));
    const rows = (cleared ? [] : known).map((row) => {
      const found = fresh.get(row.id);
      fresh.delete(row.id);
      return found ?? row;
    });
    if (!fresh.size) return rows;
    return [...rows, ...fresh.values()].sort((a, b) => a.experiment_id - b.experiment_id);
  };
}

/** The tasks with what is new of them; `gone` are not listed any more. */
export function withTasks(news: readonly Row[], gone: ReadonlySet<unknown>) {
  const byId = new Map(news.map((row) => [row.id, row]));
  return (known: Task[] | undefined): Task[] | undefined =>
    known
      ?.filter((task) => !gone.has(task.id))
      .map((task) => (byId.has(task.id) ? { ...task, ...byId.get(task.id) } : task));
}

/** New rows; `cleared` where those from before are gone. */
export interface ExperimentNews {
  cleared: boolean;
  rows: Row[];
}

export interface TuningNews {
  tasks: Row[];
  gone: Set<unknown>;
  /** By task. */
  experiments: Map<string, ExperimentNews>;
}

export const noTuningNews = (): TuningNews => ({ tasks: [], gone: new Set(), experiments: new Map() });

/** Adds what an event of the topic `tasks` says. */
export function noteTuning(news: TuningNews, event: LiveEvent): void {
  for (const row of event.rows) {
    if (event.what === "deleted") news.gone.add(row.id);
    if (event.what === "experiments_cleared" || event.what === "deleted")
      news.experiments.set(String(row.id), { cleared: true, rows: [] });
    else if (typeof row.task_id === "string") {
      const known = news.experiments.get(row.task_id) ?? { cleared: false, rows: [] };
      known.rows.push(row);
      news.experiments.set(row.task_id, known);
    } else news.tasks.push(row);
  }
}
