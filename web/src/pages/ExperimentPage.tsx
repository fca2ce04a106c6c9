import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import { type ExperimentDetail, experimentQuery, taskQuery } from "../api/taskQueries";
import { ErrorLines } from "../components/ErrorLines";
import { JobLink } from "../components/JobLink";
import { Facts, Figures, Panel } from "../components/Panel";
import { Loading, Shown } from "../components/states";
import { Tag } from "../components/Tag";
import { taskTone } from "../components/tones";
import { UserText } from "../components/UserText";
import { duration, momentInFull } from "../format/times";
import { useNow } from "../live/useNow";
import {
  FIGURES,
  figureText,
  objectiveOf,
  parameterName,
  scoreText,
  tookS,
  valueText,
} from "../tuning/figures";
import { levelsOf, numbersOf } from "../tuning/levels";
import { LevelsTable } from "./task/LevelsTable";
import "../styles/jobs.css";
import "../styles/tuning.css";

const LevelCharts = lazy(() => import("./task/LevelCharts").then((file) => ({ default: file.LevelCharts })));
const MeasuredGpus = lazy(() =>
  import("./task/MeasuredGpus").then((file) => ({ default: file.MeasuredGpus })),
);

/** One combination of parameters: how it was deployed, and what was measured. */
export function ExperimentPage() {
  const { experiment: id } = useParams({ from: "/experiments/$experiment" });
  const experiment = useQuery(experimentQuery(id));
  return (
    <Shown query={experiment} what={`experiment ${id}`}>
      {(row) => <Whole row={row} />}
    </Shown>
  );
}

function Whole({ row }: { row: ExperimentDetail }) {
  const task = useQuery(taskQuery(row.task_id));
  const levels = levelsOf(row.metrics);
  return (
    <>
      <div className="page-head">
        <h1>
          Experiment {row.experiment_id}{" "}
          <span className="quiet">
            of{" "}
            <Link to="/tasks/$task" params={{ task: row.task_id }}>
              task {row.task_id} {task.data && <UserText text={task.data.task.task_name} />}
            </Link>
          </span>
        </h1>
      </div>
      {row.error_message && <ErrorLines text={row.error_message} />}
      <Numbers row={row} objective={task.data ? objectiveOf(task.data.task) : null} />
      <div className="columns">
        <Panel title="Parameters">
          <Facts
            facts={Object.entries(row.parameters).map(
              ([name, value]) => [parameterName(name), valueText(value)] as const,
            )}
          />
        </Panel>
        <Deployment row={row} />
      </div>
      {levels.length > 0 && (
        <Panel title="Measured at each level of load">
          <LevelsTable levels={levels} label="Each level" />
          <Suspense fallback={<Loading what="the charts" />}>
            <LevelCharts levels={levels} name={`experiment ${row.experiment_id}`} />
          </Suspense>
        </Panel>
      )}
      {row.gpu_info && (
        <Suspense fallback={<Loading what="the GPUs" />}>
          <MeasuredGpus row={row} />
        </Suspense>
      )}
    </>
  );
}

const SEEN_FIRST = ["mean_total_throughput_per_gpu", "mean_ttft", "mean_tpot", "mean_e2e_latency"];

function Numbers({
  row,
  objective,
}: {
  row: ExperimentDetail;
  objective: ReturnType<typeof objectiveOf> | null;
}) {
  const now = useNow(row.completed_at == null ? 1_000 : 60_000);
  const measured = numbersOf(row.metrics);
  return (
    <Figures
      figures={[
        { name: "Status", value: <Tag word={row.status} tone={taskTone(row.status)} /> },
        ...(objective ? [{ name: "Score", value: scoreText(row.objective_score, objective) }] : []),
        ...FIGURES.filter(({ name }) => SEEN_FIRST.includes(name) && name in measured).map((figure) => ({
          name: figure.label,
          value: figureText(measured[figure.name], figure),
        })),
        { name: "Time", value: duration(tookS(row, now)) },
      ]}
    />
  );
}

function Deployment({ row }: { row: ExperimentDetail }) {
  const metrics = row.metrics ?? {};
  const measured = numbersOf(metrics);
  const asked = measured.total_requests;
  return (
    <Panel title="Deployment">
      <Facts
        facts={[
          [
            "job and its log",
            row.job_id && <JobLink key="job" job={{ id: row.job_id, name: row.service_name ?? undefined }} />,
          ],
          ["address", row.service_url && <UserText key="at" text={row.service_url} />],
          ["written down", momentInFull(row.created_at)],
          ["deployed", row.started_at == null ? null : momentInFull(row.started_at)],
          ["ended", row.completed_at == null ? null : momentInFull(row.completed_at)],
          [
            "requests answered",
            asked === undefined ? null : `${measured.total_completed_requests ?? "–"} of ${asked}`,
          ],
          ["measures again", row.repeats == null ? null : `experiment ${row.repeats}`],
          [
            "disturbed by",
            row.disturbances.length > 0 && <UserText key="noise" text={row.disturbances.join("; ")} />,
          ],
          [
            "measured by",
            typeof metrics.generator === "string" ? <UserText key="by" text={metrics.generator} /> : null,
          ],
        ]}
      />
    </Panel>
  );
}
