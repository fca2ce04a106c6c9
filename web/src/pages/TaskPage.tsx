import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { lazy, Suspense, useMemo } from "react";
import { ApiError } from "../api/client";
import { experimentsQuery, findingsQuery, type Task, type TaskDetail, taskQuery } from "../api/taskQueries";
import { ErrorLines } from "../components/ErrorLines";
import { Facts, Figures, Panel } from "../components/Panel";
import { Empty, Failed, Loading, Shown } from "../components/states";
import { Tag } from "../components/Tag";
import { taskTone } from "../components/tones";
import { UserText, visible } from "../components/UserText";
import { duration, momentInFull } from "../format/times";
import { useNow } from "../live/useNow";
import { bestsOf } from "../tuning/bests";
import { objectiveOf, scoreText, tookS } from "../tuning/figures";
import { ExperimentsPanel } from "./task/ExperimentsPanel";
import { FoundPanel } from "./task/FoundPanel";
import { ImportancePanel } from "./task/ImportancePanel";
import { TaskActions } from "./task/TaskActions";
import "../styles/jobs.css";
import "../styles/tuning.css";

const TaskCharts = lazy(() => import("./task/TaskCharts").then((file) => ({ default: file.TaskCharts })));

/** A task of the autotuner while it runs, and what it has found. */
export function TaskPage() {
  const { task: id } = useParams({ from: "/tasks/$task" });
  const task = useQuery(taskQuery(id));
  // What was deleted elsewhere is not shown on.
  if (task.error instanceof ApiError && task.error.status === 404) return <Failed error={task.error} />;
  return (
    <Shown query={task} what={`task ${id}`}>
      {(detail) => <Whole key={detail.task.id} detail={detail} />}
    </Shown>
  );
}

function Whole({ detail }: { detail: TaskDetail }) {
  const { task } = detail;
  const client = useQueryClient();
  const experiments = useQuery(experimentsQuery(task.id, client));
  const findings = useQuery(findingsQuery(task.id));
  const objective = objectiveOf(task);
  const bestIds = useMemo(
    () => (findings.data ? bestsOf(findings.data).map((best) => best.best_id) : []),
    [findings.data],
  );
  return (
    <>
      <div className="page-head">
        <h1>
          Task {task.id} <UserText text={task.task_name} className="quiet" />
        </h1>
        <TaskActions task={task} />
      </div>
      {task.error_message && <ErrorLines text={task.error_message} />}
      <Numbers task={task} />
      {findings.data && bestIds.length > 0 && <FoundPanel task={task} findings={findings.data} />}
      <Shown query={experiments} what="the experiments">
        {(rows) =>
          rows.length ? (
            <>
              {findings.data && (
                <Suspense fallback={<Loading what="the charts" />}>
                  <TaskCharts rows={rows} findings={findings.data} objective={objective} />
                </Suspense>
              )}
              {findings.data && <ImportancePanel findings={findings.data} />}
              <ExperimentsPanel task={task} rows={rows} objective={objective} bestIds={bestIds} />
            </>
          ) : (
            <Empty title="No experiments yet">
              {task.status === "pending"
                ? "The task begins when it is started."
                : "The search is about to begin."}
            </Empty>
          )
        }
      </Shown>
      <About detail={detail} />
    </>
  );
}

function Numbers({ task }: { task: Task }) {
  const now = useNow(task.status === "running" ? 1_000 : 60_000);
  const objective = objectiveOf(task);
  return (
    <Figures
      figures={[
        { name: "Status", value: <Tag word={task.status} tone={taskTone(task.status)} /> },
        {
          name: "Experiments",
          value: task.total_experiments,
          more: task.planned_experiments == null ? "" : `of at most ${task.planned_experiments}`,
        },
        { name: "Succeeded", value: task.successful_experiments },
        { name: `Best: ${objective.label}`, value: scoreText(task.best_score, objective) },
        { name: "Time", value: duration(tookS(task, now)) },
      ]}
    />
  );
}

function About({ detail: { task, config } }: { detail: TaskDetail }) {
  return (
    <Panel
      title="About"
      aside={
        <Link to="/tasks/new" search={{ like: task.id }} className="button small">
          Another like this
        </Link>
      }
    >
      <Facts
        facts={[
          ["who", <UserText key="who" text={task.user} />],
          ["description", task.description && <UserText key="description" text={task.description} />],
          ["model", <UserText key="model" text={task.model} />],
          ["served by", <UserText key="by" text={`${task.base_runtime}, as ${task.deployment_mode}`} />],
          ["objective", <UserText key="objective" text={task.objective} />],
          ["experiments at a time", config.max_parallel],
          ["queue", config.queue && <UserText key="queue" text={config.queue} />],
          ["created", momentInFull(task.created_at)],
          ["started", task.started_at == null ? null : momentInFull(task.started_at)],
          ["ended", task.completed_at == null ? null : momentInFull(task.completed_at)],
          ...task.notes.map((note) => ["note", <UserText key={note} text={note} />] as const),
        ]}
      />
      <details>
        <summary>The task as JSON</summary>
        <pre className="task-file">{JSON.stringify(config, null, 2).split("\n").map(visible).join("\n")}</pre>
      </details>
    </Panel>
  );
}
