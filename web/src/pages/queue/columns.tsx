import type { ReactNode } from "react";
import type { Job } from "../../api/queries";
import { JobLink } from "../../components/JobLink";
import type { Column } from "../../components/tableRows";
import { Tag } from "../../components/Tag";
import { phaseTone } from "../../components/tones";
import { UserText, visible } from "../../components/UserText";
import { common, countedPhases, type JobLine } from "../../jobs/jobLines";
import { duration, moment, serverNow } from "../../format/times";
import { share } from "../../format/units";
import { useNow } from "../../live/useNow";

const COLUMNS: Column<Job>[] = [
  {
    id: "id",
    header: "Job",
    value: (job) => job.sequence ?? 0,
    cell: (job) => <JobLink job={job} />,
  },
  {
    id: "user",
    header: "Who",
    value: (job) => job.user,
    cell: (job) => <UserText text={job.user} />,
  },
  {
    id: "phase",
    value: (job) => job.phase,
    header: "Phase",
    cell: (job) => (
      <Tag word={job.held && job.phase === "PENDING" ? "on hold" : job.phase} tone={phaseTone(job.phase)} />
    ),
  },
  {
    id: "gpus",
    header: "GPUs",
    value: (job) => job.gpus_milli ?? 0,
    cell: (job) => share(job.gpus_milli ?? (job.gpus == null ? null : job.gpus * 1000)),
    numeric: true,
  },
  {
    id: "queue",
    header: "Queue",
    value: (job) => job.queue,
    cell: (job) => <UserText text={job.queue} />,
    wide: true,
  },
  { id: "priority", value: (job) => job.priority, header: "Priority", numeric: true, wide: true },
  {
    id: "submitted",
    header: "Submitted",
    value: (job) => job.submitted_at ?? 0,
    cell: (job) => moment(job.submitted_at),
    numeric: true,
    wide: true,
  },
  {
    id: "time",
    header: "Time",
    value: (job) => (job.started_at == null ? 0 : (job.ended_at ?? serverNow()) - job.started_at),
    cell: (job) => <Ran job={job} />,
    numeric: true,
  },
  {
    id: "where",
    header: "Where, why",
    cell: (job) => <WhereWhy job={job} />,
  },
];

function Ran({ job }: { job: Job }) {
  if (job.started_at == null) return "–";
  return job.ended_at == null ? <Since at={job.started_at} /> : duration(job.ended_at - job.started_at);
}

/** Grows by itself: a row is drawn anew only when its job changes. */
function Since({ at }: { at: number }) {
  return duration(useNow() - at);
}

function WhereWhy({ job }: { job: Job }) {
  if (job.ended_at != null) return job.reason ? <UserText text={job.reason} className="quiet" /> : null;
  if (job.phase !== "PENDING") return <UserText text={job.nodes.join(", ")} />;
  const when =
    job.expected_start == null
      ? ""
      : ` ${job.expected_start_is === "promise" ? "by" : "about"} ${moment(job.expected_start)}`;
  return (
    <span>
      {job.wait ?? "–"}
      <span className="quiet">{when}</span>
    </span>
  );
}

/** The column of the way to why a job waits; of an array, why the next of its elements does. */
function asking(onAsk: (id: string) => void): Column<Job> {
  return {
    id: "why",
    header: <span className="only-read-aloud">Why</span>,
    cell: (job) =>
      job.phase === "PENDING" && (
        <button
          type="button"
          className="button small"
          aria-label={`Why job ${job.id} waits`}
          onClick={() => onAsk(job.id)}
        >
          why
        </button>
      ),
    wide: true,
  };
}

/** The columns of a list in which an array is one line. Opening and closing one is told by its key. */
export function lineColumns(onAsk: (id: string) => void, onToggle: (key: string) => void): Column<JobLine>[] {
  return [...COLUMNS, asking(onAsk)].map(({ value, cell, ...column }) => ({
    ...column,
    ...(value ? { value: (line: JobLine) => value(line.job) } : {}),
    cell: (line: JobLine) => {
      if (line.elements) {
        const ofAll = OF_ARRAYS[column.id];
        if (column.id === "id") return <ArrayHead line={line} elements={line.elements} onToggle={onToggle} />;
        if (ofAll) return ofAll(line.elements);
      }
      const shown = cell ? cell(line.job) : value?.(line.job);
      return line.below && column.id === "id" ? <span className="element">{shown}</span> : shown;
    },
  }));
}

const VARIOUS = <span className="quiet">various</span>;

/** What a line says of all elements of an array; the other columns are those of the element that speaks for it. */
const OF_ARRAYS: Record<string, (elements: readonly Job[]) => ReactNode> = {
  phase: (elements) => (
    <span className="phases">
      {countedPhases(elements).map(([phase, count]) => (
        <Tag key={phase} word={`${count} ${phase}`} tone={phaseTone(phase)} />
      ))}
    </span>
  ),
  gpus: (elements) => {
    const each = common(elements, (job) => job.gpus_milli ?? (job.gpus == null ? null : job.gpus * 1000));
    return each == null ? VARIOUS : `${elements.length} × ${share(each)}`;
  },
  queue: (elements) => {
    const queue = common(elements, (job) => job.queue);
    return queue == null ? VARIOUS : <UserText text={queue} />;
  },
  priority: (elements) => common(elements, (job) => job.priority) ?? VARIOUS,
  time: (elements) => {
    const started = elements.filter((job) => job.started_at != null && job.ended_at == null);
    const first = [...started].sort((a, b) => (a.started_at ?? 0) - (b.started_at ?? 0))[0];
    return first ? <Ran job={first} /> : "–";
  },
};

function ArrayHead({
  line,
  elements,
  onToggle,
}: {
  line: JobLine;
  elements: readonly Job[];
  onToggle: (key: string) => void;
}) {
  const name = common(elements, (job) => job.name);
  return (
    <button
      type="button"
      className="opens"
      aria-expanded={line.open}
      aria-label={`${line.key}${name ? ` ${visible(name)}` : ""}, ${elements.length} elements`}
      onClick={() => onToggle(line.key)}
    >
      <span aria-hidden="true">{line.open ? "▾" : "▸"}</span> {line.job.array_id}
      {name && <UserText text={name} className="quiet" />}
      <span className="quiet">{elements.length} jobs</span>
    </button>
  );
}
