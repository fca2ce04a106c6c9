import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { ColumnDef } from "@tanstack/react-table";
import { useEffect, useState } from "react";
import { type Job, jobsQuery } from "../api/queries";
import { DataTable } from "../components/DataTable";
import { JobLink } from "../components/JobLink";
import { Panel } from "../components/Panel";
import { Empty, Shown } from "../components/states";
import { Tag } from "../components/Tag";
import { phaseTone } from "../components/tones";
import { UserText } from "../components/UserText";
import { duration, moment, serverNow } from "../format/times";
import { share } from "../format/units";

const MOST = 10_000;
const TYPING_MS = 300;

const COLUMNS: ColumnDef<Job, unknown>[] = [
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

/** Jobs that wait or run, and those that have ended, narrowed on the server. */
export function QueuePage() {
  const search = useSearch({ from: "/queue" });
  const navigate = useNavigate({ from: "/queue" });
  const jobs = useQuery(
    jobsQuery({
      all: search.ended,
      user: search.user,
      name: search.name,
      queue: search.queue,
      phase: search.phase,
      limit: search.ended ? 1000 : MOST,
    }),
  );
  const set = (field: "user" | "name" | "queue", value: string) =>
    void navigate({ search: (old) => ({ ...old, [field]: value || undefined }), replace: true });
  return (
    <>
      <div className="page-head">
        <h1>Queue</h1>
      </div>
      <search className="fields">
        <Typed label="User" value={search.user} hint="me, alice" onChange={(value) => set("user", value)} />
        <Typed label="Name" value={search.name} hint="sweep-*" onChange={(value) => set("name", value)} />
        <Typed label="Queue" value={search.queue} hint="all" onChange={(value) => set("queue", value)} />
        <label>
          <input
            type="checkbox"
            checked={search.ended ?? false}
            onChange={(event) =>
              void navigate({ search: (old) => ({ ...old, ended: event.target.checked || undefined }) })
            }
          />{" "}
          ended ones too
        </label>
      </search>
      <Shown query={jobs} what="the jobs">
        {(rows) => (
          <Panel title={`${rows.length} jobs`}>
            {rows.length ? (
              <DataTable rows={rows} columns={COLUMNS} label="Jobs" keyOf={(job) => job.id} />
            ) : (
              <Empty title="There is no such job">
                <code>corral submit --gpus 1 -- python train.py</code> makes one.
              </Empty>
            )}
          </Panel>
        )}
      </Shown>
    </>
  );
}

/** A field whose value counts when its user has stopped typing. */
function Typed({
  label,
  value,
  hint,
  onChange,
}: {
  label: string;
  value: string | undefined;
  hint: string;
  onChange: (value: string) => void;
}) {
  const [typed, setTyped] = useState(value ?? "");
  useEffect(() => {
    if (typed === (value ?? "")) return;
    const timer = window.setTimeout(() => onChange(typed), TYPING_MS);
    return () => window.clearTimeout(timer);
  }, [typed, value, onChange]);
  const id = `filter-${label}`;
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input id={id} value={typed} placeholder={hint} onChange={(event) => setTyped(event.target.value)} />
    </div>
  );
}
