import type { ColumnDef } from "@tanstack/react-table";
import type { Job } from "../../api/queries";
import { JobLink } from "../../components/JobLink";
import { Tag } from "../../components/Tag";
import { phaseTone } from "../../components/tones";
import { UserText } from "../../components/UserText";
import { duration, moment, serverNow } from "../../format/times";
import { share } from "../../format/units";

export const COLUMNS: ColumnDef<Job, unknown>[] = [
  {
    id: "id",
    header: "Job",
    accessorFn: (job) => job.sequence ?? 0,
    cell: ({ row: { original } }) => <JobLink job={original} />,
  },
  {
    id: "user",
    header: "Who",
    accessorKey: "user",
    cell: ({ row: { original } }) => <UserText text={original.user} />,
  },
  {
    accessorKey: "phase",
    header: "Phase",
    cell: ({ row: { original } }) => (
      <Tag word={original.held ? "on hold" : original.phase} tone={phaseTone(original.phase)} />
    ),
  },
  {
    id: "gpus",
    header: "GPUs",
    accessorFn: (job) => job.gpus_milli ?? 0,
    cell: ({ row: { original } }) =>
      share(original.gpus_milli ?? (original.gpus == null ? null : original.gpus * 1000)),
    meta: { numeric: true },
  },
  {
    id: "queue",
    header: "Queue",
    accessorKey: "queue",
    cell: ({ row: { original } }) => <UserText text={original.queue} />,
    meta: { wide: true },
  },
  { accessorKey: "priority", header: "Priority", meta: { numeric: true, wide: true } },
  {
    id: "submitted",
    header: "Submitted",
    accessorFn: (job) => job.submitted_at ?? 0,
    cell: ({ row: { original } }) => moment(original.submitted_at),
    meta: { numeric: true, wide: true },
  },
  {
    id: "time",
    header: "Time",
    accessorFn: (job) => (job.started_at == null ? 0 : (job.ended_at ?? serverNow()) - job.started_at),
    cell: ({ row: { original } }) =>
      original.started_at == null ? "–" : duration((original.ended_at ?? serverNow()) - original.started_at),
    meta: { numeric: true },
  },
  {
    id: "where",
    header: "Where, why",
    enableSorting: false,
    cell: ({ row: { original } }) => <WhereWhy job={original} />,
  },
];

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

/** The column by which rows are chosen; `choosable` are those that may be, of which all are chosen at once. */
export function choosing(
  chosen: ReadonlySet<string>,
  choosable: readonly string[],
  choose: (ids: ReadonlySet<string>) => void,
): ColumnDef<Job, unknown> {
  const may = new Set(choosable);
  const all = choosable.length > 0 && chosen.size === choosable.length;
  return {
    id: "chosen",
    enableSorting: false,
    header: () => (
      <input
        type="checkbox"
        aria-label="Choose all"
        checked={all}
        onChange={() => choose(all ? new Set() : may)}
      />
    ),
    cell: ({ row: { original: job } }) =>
      may.has(job.id) && (
        <input
          type="checkbox"
          aria-label={`Choose job ${job.id}`}
          checked={chosen.has(job.id)}
          onChange={(event) => {
            const next = new Set(chosen);
            if (event.target.checked) next.add(job.id);
            else next.delete(job.id);
            choose(next);
          }}
        />
      ),
  };
}

/** The column of the way to why a job waits. */
export function asking(onAsk: (id: string) => void): ColumnDef<Job, unknown> {
  return {
    id: "why",
    header: () => <span className="only-read-aloud">Why</span>,
    enableSorting: false,
    cell: ({ row: { original: job } }) =>
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
    meta: { wide: true },
  };
}
