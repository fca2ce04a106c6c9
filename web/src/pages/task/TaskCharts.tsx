import { useMemo, useState } from "react";
import type { Experiment, Findings } from "../../api/taskQueries";
import { Chart } from "../../charts/Chart";
import { measuredFront, MOST_LINES, parallelParameters, scoresOverTime } from "../../charts/tuning";
import { Choice } from "../../components/Choice";
import { Panel } from "../../components/Panel";
import { counted } from "../../format/units";
import {
  type Figure,
  figureNamed,
  figureText,
  parameterName,
  parametersText,
  scorePoints,
  variedParameters,
} from "../../tuning/figures";

const CHART_PX = 260;
const AXIS_PX = 110;
const MOST_AXES = 12;
const SPOKEN = 20;

/** Scores over time, parameters beside each other, and what no other beats. */
export function TaskCharts({
  rows,
  findings,
  objective,
}: {
  rows: readonly Experiment[];
  findings: Findings;
  objective: Figure;
}) {
  const points = useMemo(() => scorePoints(rows, objective), [rows, objective]);
  const scores = useMemo(() => scoresOverTime(points, objective), [points, objective]);
  if (!points.length) return null;
  return (
    <>
      <div className="columns">
        <Panel title={`${objective.label} over time`}>
          <Chart
            label={`${objective.label} of each experiment over time, and the best so far`}
            option={scores}
            height={CHART_PX}
            summary={points
              .filter(({ value, best }) => value === best)
              .slice(-SPOKEN)
              .map(
                ({ row, value }) =>
                  `experiment ${row.experiment_id} was the best with ${figureText(value, objective)}: ${parametersText(row.parameters)}`,
              )}
          />
        </Panel>
        <Front rows={rows} findings={findings} />
      </div>
      <Parameters rows={rows} objective={objective} />
    </>
  );
}

const PAIRS: Record<string, string> = {
  latency: "mean_e2e_latency",
  "first token": "mean_ttft",
  "output token": "mean_tpot",
};

function Front({ rows, findings }: { rows: readonly Experiment[]; findings: Findings }) {
  const [by, setBy] = useState("latency");
  const front = findings.fronts.find(({ x }) => x === PAIRS[by]);
  const [x, y] = [figureNamed(front?.x ?? ""), figureNamed(front?.y ?? "")];
  const option = useMemo(
    () => (front && x && y ? measuredFront(rows, front.ids, x, y) : null),
    [rows, front, x, y],
  );
  const kept = useMemo(() => rows.filter((row) => front?.ids.includes(row.id)), [rows, front]);
  if (!option || !x || !y) return null;
  return (
    <Panel
      title="Throughput against time"
      aside={<Choice label="Time on the axis" options={Object.keys(PAIRS)} value={by} onChange={setBy} />}
    >
      <Chart
        label={`${y.label} against ${x.label.toLowerCase()}: ${counted(kept.length, "experiment")} that no other beats in both`}
        option={option}
        height={CHART_PX}
        summary={kept
          .slice(0, SPOKEN)
          .map(
            (row) =>
              `experiment ${row.experiment_id}: ${figureText(row.figures[y.name], y)} at ${figureText(row.figures[x.name], x)}, ${parametersText(row.parameters)}`,
          )}
      />
    </Panel>
  );
}

function Parameters({ rows, objective }: { rows: readonly Experiment[]; objective: Figure }) {
  const scored = useMemo(
    () => rows.filter((row) => row.status === "success" && row.objective_score != null),
    [rows],
  );
  const names = useMemo(() => variedParameters(scored).slice(0, MOST_AXES), [scored]);
  const option = useMemo(() => parallelParameters(scored, names, objective), [scored, names, objective]);
  if (!names.length) return null;
  return (
    <Panel
      title="Parameters beside each other"
      aside={
        <span className="quiet">
          {scored.length > MOST_LINES ? `the best ${MOST_LINES} of ${scored.length}, ` : ""}the greener the
          better
        </span>
      }
    >
      <section className="wide-chart" tabIndex={0} aria-label="Parameters of the experiments">
        <div style={{ minWidth: (names.length + 1) * AXIS_PX }}>
          <Chart
            label={`Parallel coordinates of ${names.map(parameterName).join(", ")} and ${objective.label.toLowerCase()}; the table of experiments has the same`}
            option={option}
            height={CHART_PX + 40}
          />
        </div>
      </section>
    </Panel>
  );
}
