import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { mayWork } from "../access/rights";
import { sessionQuery } from "../api/queries";
import { type Task, tasksQuery } from "../api/taskQueries";
import { DataTable } from "../components/DataTable";
import { Panel } from "../components/Panel";
import { Empty, Shown } from "../components/states";
import type { Column } from "../components/tableRows";
import { Tag } from "../components/Tag";
import { taskTone } from "../components/tones";
import { UserText } from "../components/UserText";
import { duration, moment, serverNow } from "../format/times";
import { counted } from "../format/units";
import { useNow } from "../live/useNow";
import { objectiveOf, scoreText, tookS } from "../tuning/figures";
import "../styles/tuning.css";

const idOf = (task: Task) => task.id;

const COLUMNS: Column<Task>[] = [
  {
    id: "id",
    header: "Task",
    value: (task) => Number(task.id),
    cell: (task) => (
      <Link to="/tasks/$task" params={{ task: task.id }}>
        {task.id} <UserText text={task.task_name} className="quiet" />
      </Link>
    ),
  },
  { id: "user", header: "Who", value: (task) => task.user, cell: (task) => <UserText text={task.user} /> },
  {
    id: "status",
    header: "Status",
    value: (task) => task.status,
    cell: (task) => <Tag word={task.status} tone={taskTone(task.status)} />,
  },
  {
    id: "tried",
    header: "Tried",
    value: (task) => task.total_experiments,
    cell: (task) => `${task.total_experiments} of ${task.planned_experiments ?? "?"}`,
    numeric: true,
  },
  {
    id: "best",
    header: "Best",
    value: (task) => task.best_score,
    cell: (task) => <Best task={task} />,
    numeric: true,
  },
  {
    id: "model",
    header: "Model",
    value: (task) => task.model,
    cell: (task) => <UserText text={task.model} className="cut task-model" />,
    wide: true,
  },
  {
    id: "engine",
    header: "Served by",
    value: (task) => task.base_runtime,
    cell: (task) => <UserText text={task.base_runtime} />,
    wide: true,
  },
  {
    id: "time",
    header: "Time",
    value: (task) => tookS(task, serverNow()),
    cell: (task) => <Took task={task} />,
    numeric: true,
  },
  {
    id: "created",
    header: "Created",
    value: (task) => task.created_at,
    cell: (task) => moment(task.created_at),
    numeric: true,
    wide: true,
  },
];

/** What the autotuner is at, and what it has found. */
export function TasksPage() {
  const tasks = useQuery(tasksQuery);
  const session = useQuery(sessionQuery);
  return (
    <>
      <div className="page-head">
        <h1>Autotuner</h1>
        {mayWork(session.data) && (
          <Link to="/tasks/new" className="button" data-kind="main">
            New task
          </Link>
        )}
      </div>
      <Shown query={tasks} what="the tasks">
        {(rows) => (
          <Panel title={counted(rows.length, "task")}>
            {rows.length ? (
              <DataTable rows={rows} columns={COLUMNS} label="Tasks" keyOf={idOf} />
            ) : (
              <Empty title="There is no task yet">
                <span>
                  A task finds the best way to serve a model: <code>corral tune task.json</code> makes one,
                  too.
                </span>
              </Empty>
            )}
          </Panel>
        )}
      </Shown>
    </>
  );
}

function Best({ task }: { task: Task }) {
  const objective = objectiveOf(task);
  if (task.best_score == null) return "–";
  return <span title={objective.label}>{scoreText(task.best_score, objective)}</span>;
}

function Took({ task }: { task: Task }) {
  const now = useNow(task.status === "running" ? 1_000 : 60_000);
  return duration(tookS(task, now));
}
