import { Link, useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import type { Experiment, Task } from "../../api/taskQueries";
import { DataTable } from "../../components/DataTable";
import { Panel } from "../../components/Panel";
import type { Column } from "../../components/tableRows";
import { Tag } from "../../components/Tag";
import { taskTone } from "../../components/tones";
import { UserText } from "../../components/UserText";
import { duration, serverNow } from "../../format/times";
import { counted } from "../../format/units";
import {
  type Figure,
  figureNamed,
  figureText,
  gpusText,
  onSeveralModels,
  parametersText,
  scoreText,
  tookS,
} from "../../tuning/figures";

const idOf = (row: Experiment) => row.id;
const SHOWN = ["mean_total_throughput_per_gpu", "mean_ttft", "mean_tpot", "mean_e2e_latency"];

/** What was tried, as a table, of which two may be chosen and compared. */
export function ExperimentsPanel({
  task,
  rows,
  objective,
  bestIds,
}: {
  task: Task;
  rows: readonly Experiment[];
  objective: Figure;
  bestIds: readonly string[];
}) {
  const [chosen, choose] = useState<ReadonlySet<string>>(new Set());
  const navigate = useNavigate();
  const several = useMemo(() => onSeveralModels(rows), [rows]);
  const columns = useMemo(() => columnsFor(objective, bestIds, several), [objective, bestIds, several]);
  const [one, other] = chosen;
  return (
    <Panel
      title={counted(rows.length, "experiment")}
      aside={
        <div className="fields" role="group" aria-label="Chosen experiments">
          <span className="quiet">
            {chosen.size === 2 ? "" : `choose two to compare${chosen.size ? `: ${chosen.size} chosen` : ""}`}
          </span>
          <button
            type="button"
            className="button"
            disabled={chosen.size !== 2}
            onClick={() =>
              void navigate({
                to: "/tasks/$task/compare",
                params: { task: task.id },
                search: { one, other },
              })
            }
          >
            Compare
          </button>
        </div>
      }
    >
      <DataTable
        rows={rows}
        columns={columns}
        label="Experiments"
        keyOf={idOf}
        selection={{ chosen, choose, mayChoose: isOver, nameOf: (row) => `experiment ${row.experiment_id}` }}
      />
    </Panel>
  );
}

const isOver = (row: Experiment) => row.completed_at != null;

function columnsFor(
  objective: Figure,
  bestIds: readonly string[],
  severalModels: boolean,
): Column<Experiment>[] {
  return [
    {
      id: "number",
      header: "No.",
      value: (row) => row.experiment_id,
      cell: (row) => (
        <Link to="/experiments/$experiment" params={{ experiment: row.id }}>
          {row.experiment_id}
        </Link>
      ),
      numeric: true,
    },
    {
      id: "status",
      header: "Status",
      value: (row) => row.status,
      cell: (row) => (
        <span className="one-line">
          <Tag word={row.status} tone={taskTone(row.status)} title={row.error_message ?? undefined} />
          {bestIds.includes(row.id) && <Tag word="best" tone="good" />}
          {row.disturbances.length > 0 && (
            <Tag word="noise" tone="warn" title={row.disturbances.join("; ")} />
          )}
          {row.repeats != null && <Tag word={`repeats ${row.repeats}`} tone="off" />}
        </span>
      ),
    },
    {
      id: "score",
      header: objective.label,
      value: (row) => row.objective_score,
      cell: (row) => scoreText(row.objective_score, objective),
      numeric: true,
    },
    {
      id: "gpus",
      header: "GPUs",
      value: (row) => row.gpus,
      cell: (row) => <Gpus row={row} inFull={severalModels} />,
    },
    {
      id: "parameters",
      header: "Parameters",
      value: (row) => parametersText(row.parameters),
      cell: (row) => <UserText text={parametersText(row.parameters)} className="cut parameters" />,
    },
    ...SHOWN.flatMap((name) => figureNamed(name) ?? [])
      .filter((figure) => figure.name !== objective.name)
      .map((figure): Column<Experiment> => ({
        id: figure.name,
        header: figure.label,
        value: (row) => row.figures[figure.name],
        cell: (row) => figureText(row.figures[figure.name], figure),
        numeric: true,
        wide: true,
      })),
    {
      id: "time",
      header: "Time",
      value: (row) => tookS(row, serverNow()),
      cell: (row) => duration(tookS(row, serverNow())),
      numeric: true,
      wide: true,
    },
    {
      id: "job",
      header: "Job",
      value: (row) => (row.job_id == null ? null : Number(row.job_id)),
      cell: (row) =>
        row.job_id == null ? (
          "–"
        ) : (
          <Link to="/jobs/$id" params={{ id: row.job_id }}>
            <UserText text={row.job_id} />
          </Link>
        ),
      wide: true,
    },
  ];
}

/** How many GPUs, of which maker or model, and a sign where they were read while it was measured. */
function Gpus({ row, inFull }: { row: Experiment; inFull: boolean }) {
  return (
    <span className="one-line">
      {gpusText(row, inFull)} {row.monitored && <ChartSign />}
    </span>
  );
}

/** Drawn, for not every machine has a font with such a sign. */
function ChartSign() {
  return (
    <svg className="chart-sign" viewBox="0 0 12 12" role="img" aria-label="its GPUs were read">
      <title>its GPUs were read while it was measured</title>
      <path d="M1 11V6h2v5zM5 11V1h2v10zM9 11V4h2v7z" fill="currentColor" />
    </svg>
  );
}
