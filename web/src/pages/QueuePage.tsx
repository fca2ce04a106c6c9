import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useEffect, useMemo, useState } from "react";
import { mayChangeJob } from "../access/rights";
import { type Job, jobsQuery, sessionQuery } from "../api/queries";
import { Choice } from "../components/Choice";
import { DataTable } from "../components/DataTable";
import { Select } from "../components/Select";
import { Panel } from "../components/Panel";
import { Empty, Loading, Shown } from "../components/states";
import { counted } from "../format/units";
import { type JobLine, JobLines } from "../jobs/jobLines";
import { joiningStarts } from "../jobs/starts";
import { TIMELINE_HOURS } from "../jobs/timeline";
import { Why } from "../jobs/Why";
import { JOB_MEANS, JOB_MEANS_IN_WORDS } from "../pool/means";
import { BulkActions } from "./queue/BulkActions";
import { lineColumns } from "./queue/columns";
import "../styles/jobs.css";

// With the charts, which the list has no use for.
const TimelinePanel = lazy(() =>
  import("./queue/TimelinePanel").then((file) => ({ default: file.TimelinePanel })),
);

const MOST = 10_000;
/** The starts of so many are asked for, of those that came first: the forecast does not reach many more. */
const MOST_FORESEEN = 200;
const TYPING_MS = 300;

const idOf = (job: Job) => job.id;
const keyOf = (line: JobLine) => line.key;
const jobsOf = (line: JobLine) => line.elements ?? [line.job];

/** Jobs that wait or run, and those that have ended, narrowed on the server. */
export function QueuePage() {
  const search = useSearch({ from: "/queue" });
  const navigate = useNavigate({ from: "/queue" });
  const { user, name, queue, project, namespace, means } = search;
  const listed = useQuery(
    jobsQuery({
      all: search.ended,
      user,
      name,
      queue,
      project,
      namespace,
      means,
      phase: search.phase,
      limit: search.ended ? 1000 : MOST,
    }),
  );
  const foreseen = useQuery(
    jobsQuery({
      user,
      name,
      queue,
      project,
      namespace,
      means,
      phase: "PENDING",
      limit: MOST_FORESEEN,
      sort: "id",
      starts: true,
    }),
  );
  const [withStarts] = useState(joiningStarts);
  const jobs = {
    ...listed,
    data: useMemo(
      () => listed.data && withStarts(listed.data, foreseen.data ?? []),
      [withStarts, listed.data, foreseen.data],
    ),
  };
  const set = (field: "user" | "name" | "queue" | "project" | "namespace" | "means", value: string) =>
    void navigate({ search: (old) => ({ ...old, [field]: value || undefined }), replace: true });
  const ask = useCallback(
    (id: string) => void navigate({ search: (old) => ({ ...old, why: old.why === id ? undefined : id }) }),
    [navigate],
  );
  return (
    <>
      <div className="page-head">
        <h1>Queue</h1>
        <Choice
          label="List or timeline"
          options={["list", ...TIMELINE_HOURS] as const}
          value={search.timeline ?? "list"}
          onChange={(next) =>
            void navigate({ search: (old) => ({ ...old, timeline: next === "list" ? undefined : next }) })
          }
        />
      </div>
      {search.timeline && (
        <Suspense fallback={<Loading what="the timeline" />}>
          <TimelinePanel hours={search.timeline} />
        </Suspense>
      )}
      <search className="fields">
        <Typed label="User" value={search.user} hint="me, alice" onChange={(value) => set("user", value)} />
        <Typed label="Name" value={search.name} hint="sweep-*" onChange={(value) => set("name", value)} />
        <Typed label="Queue" value={search.queue} hint="all" onChange={(value) => set("queue", value)} />
        <Typed
          label="Project"
          value={search.project}
          hint="all"
          onChange={(value) => set("project", value)}
        />
        <Typed
          label="Namespace"
          value={search.namespace}
          hint="of pods"
          onChange={(value) => set("namespace", value)}
        />
        <Select
          label="Holds"
          value={means}
          options={JOB_MEANS.map((each) => [each, JOB_MEANS_IN_WORDS[each]])}
          onChange={(value) => set("means", value)}
        />
        <label>
          <input
            type="checkbox"
            checked={search.ended ?? false}
            onChange={(event) =>
              void navigate({ search: (old) => ({ ...old, ended: event.target.checked || undefined }) })
            }
          />{" "}
          also ended jobs
        </label>
      </search>
      {search.why && <Why id={search.why} />}
      <Shown query={jobs} what="the jobs">
        {(rows) => <Jobs rows={rows} onAsk={ask} />}
      </Shown>
    </>
  );
}

/** The jobs as a table, of which some may be chosen and changed together. An array is one line, which opens. */
function Jobs({ rows, onAsk }: { rows: readonly Job[]; onAsk: (id: string) => void }) {
  const session = useQuery(sessionQuery);
  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set());
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const [lines] = useState(() => new JobLines());
  const mayChoose = useCallback(
    (job: Job) => job.ended_at == null && mayChangeJob(session.data, job),
    [session.data],
  );
  const toggle = useCallback(
    (key: string) =>
      setOpen(
        (before) => new Set(before.has(key) ? [...before].filter((each) => each !== key) : [...before, key]),
      ),
    [],
  );
  // What has ended or left the filter meanwhile is not chosen any more.
  const chosen = useMemo(
    () => (marked.size ? rows.filter((job) => marked.has(job.id) && mayChoose(job)).map(idOf) : []),
    [marked, rows, mayChoose],
  );
  const shown = useMemo(() => lines.of(rows, open), [lines, rows, open]);
  const columns = useMemo(() => lineColumns(onAsk, toggle), [onAsk, toggle]);
  const keysOf = useCallback((line: JobLine) => jobsOf(line).filter(mayChoose).map(idOf), [mayChoose]);
  return (
    <Panel
      title={counted(rows.length, "job")}
      aside={<BulkActions chosen={chosen} onDone={() => setMarked(new Set())} />}
    >
      {rows.length ? (
        <DataTable
          rows={shown}
          columns={columns}
          label="Jobs"
          keyOf={keyOf}
          below={lines.below}
          selection={
            rows.some(mayChoose)
              ? {
                  chosen: new Set(chosen),
                  mayChoose: (line) => jobsOf(line).some(mayChoose),
                  choose: setMarked,
                  nameOf: (line) => (line.elements ? `all of ${line.key}` : `job ${line.job.id}`),
                  keysOf,
                }
              : undefined
          }
        />
      ) : (
        <Empty title="No job matches">
          <code>corral submit --gpus 1 -- python train.py</code> makes one.
        </Empty>
      )}
    </Panel>
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
