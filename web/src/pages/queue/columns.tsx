import type { Job } from "../../api/queries";
import { JobLink } from "../../components/JobLink";
import type { Column } from "../../components/tableRows";
import { Tag } from "../../components/Tag";
import { phaseTone } from "../../components/tones";
import { UserText } from "../../components/UserText";
import { duration, moment, serverNow } from "../../format/times";
import { share } from "../../format/units";
import { useNow } from "../../live/useNow";

export const COLUMNS: Column<Job>[] = [
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
    cell: (job) => <Tag word={job.held ? "on hold" : job.phase} tone={phaseTone(job.phase)} />,
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

/** The column of the way to why a job waits. */
export function asking(onAsk: (id: string) => void): Column<Job> {
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
