/** Charts of a task of the autotuner: scores over time, parameters beside each other, what no other beats. */
import { ParallelChart, ScatterChart } from "echarts/charts";
import { ParallelComponent, VisualMapComponent } from "echarts/components";
import { type EChartsCoreOption, use as register } from "echarts/core";
import type { Experiment } from "../api/taskQueries";
import {
  type Figure,
  figureText,
  gpusText,
  onSeveralModels,
  parameterName,
  parametersText,
  type ScorePoint,
  scoreValue,
  valueText,
} from "../tuning/figures";

register([ParallelChart, ScatterChart, ParallelComponent, VisualMapComponent]);

/** More lines than this are a surface: the best are drawn. */
export const MOST_LINES = 1_000;
const MOST_STEPS = 8;
const ACCENT = "#12a67c";
const POINT = "#5b8def";
const QUIET = "#8a93a5";
/** From the best to the worst, clear on light ground and on dark. */
const BEST_FIRST = ["#12a67c", "#3b82f6", "#8a93a5"];
const FRAME = { backgroundColor: "transparent", animation: false };

const tooltip = (told: (index: number) => string) => ({
  trigger: "item",
  confine: true,
  // Plain text: what a user named is in it.
  renderMode: "richText",
  formatter: (at: { dataIndex: number }) => told(at.dataIndex),
});

const axis = (figure: Figure) => ({
  type: "value",
  scale: true,
  axisLabel: { formatter: (value: number) => figureText(value, figure), hideOverlap: true },
});

function toldOf(row: Experiment, ...lines: string[]): string {
  const first = `experiment ${row.experiment_id} on ${gpusText(row, true)}`;
  return [first, ...lines, parametersText(row.parameters).slice(0, 300)].join("\n");
}

/** Each score when it was found, and the best so far. */
export function scoresOverTime(points: readonly ScorePoint[], objective: Figure): EChartsCoreOption {
  return {
    ...FRAME,
    grid: { left: 70, right: 16, top: 34, bottom: 26 },
    legend: { top: 0, type: "scroll" },
    tooltip: tooltip((index) => {
      const point = points[index];
      return point ? toldOf(point.row, figureText(point.value, objective)) : "";
    }),
    xAxis: { type: "time", splitNumber: 4, axisLabel: { hideOverlap: true } },
    yAxis: axis(objective),
    series: [
      {
        type: "line",
        name: "best so far",
        step: "end",
        symbol: "none",
        silent: true,
        data: points.map((point) => [point.atS * 1000, point.best]),
        itemStyle: { color: ACCENT },
        lineStyle: { width: 2, color: ACCENT },
      },
      {
        type: "scatter",
        name: "experiment",
        symbolSize: 7,
        data: points.map((point) => [point.atS * 1000, point.value]),
        itemStyle: { color: POINT },
      },
    ],
  };
}

/** Experiments by two figures; those that no other beats in both are joined. */
export function measuredFront(
  rows: readonly Experiment[],
  ids: readonly string[],
  x: Figure,
  y: Figure,
): EChartsCoreOption {
  const measured = rows.filter(
    (row) => row.status === "success" && x.name in row.figures && y.name in row.figures,
  );
  const byId = new Map(measured.map((row) => [row.id, row]));
  const front = ids.flatMap((id) => byId.get(id) ?? []);
  const place = (row: Experiment) => [row.figures[x.name], row.figures[y.name]];
  const others = measured.filter((row) => !ids.includes(row.id));
  const told = (of: readonly Experiment[]) =>
    tooltip((index) => {
      const row = of[index];
      if (!row) return "";
      return toldOf(
        row,
        `${x.label} ${figureText(row.figures[x.name], x)}`,
        `${y.label} ${figureText(row.figures[y.name], y)}`,
      );
    });
  return {
    ...FRAME,
    grid: { left: 70, right: 24, top: 34, bottom: 44 },
    legend: { top: 0, type: "scroll" },
    tooltip: { trigger: "item", confine: true, renderMode: "richText" },
    xAxis: { ...axis(x), name: x.label, nameLocation: "middle", nameGap: 28 },
    yAxis: axis(y),
    series: [
      {
        type: "scatter",
        name: "beaten",
        symbolSize: 7,
        data: others.map(place),
        itemStyle: { color: QUIET },
        tooltip: told(others),
      },
      {
        type: "line",
        name: "not beaten",
        symbol: "diamond",
        symbolSize: 10,
        data: front.map(place),
        itemStyle: { color: ACCENT },
        // A line between experiments on different models of GPU would compare them.
        lineStyle: { color: ACCENT, width: onSeveralModels(front) ? 0 : 1.5, type: "dashed" },
        tooltip: told(front),
      },
    ],
  };
}

/** A line for each of these experiments, which have scores, through its parameters to its score; the best are the most coloured. */
export function parallelParameters(
  rows: readonly Experiment[],
  names: readonly string[],
  objective: Figure,
): EChartsCoreOption {
  const scored = [...rows]
    .sort((a, b) => (a.objective_score ?? 0) - (b.objective_score ?? 0))
    .slice(0, MOST_LINES)
    // The best are drawn last, above all others.
    .reverse();
  const scores = scored.map((row) => scoreValue(row.objective_score, objective) ?? 0);
  const values = names.map((name) => [...new Set(scored.map((row) => row.parameters[name]))]);
  const continuous = values.map(isContinuous);
  const last = names.length;
  return {
    ...FRAME,
    parallel: {
      left: 44,
      right: 64,
      top: 40,
      bottom: 22,
      parallelAxisDefault: { nameTextStyle: { fontSize: 12 } },
    },
    parallelAxis: [
      ...names.map((name, dim) => parameterAxis(values[dim] ?? [], name, dim)),
      {
        dim: last,
        name: objective.label,
        scale: true,
        nameTextStyle: { fontWeight: "bold" },
        axisLabel: { formatter: (value: number) => figureText(value, objective) },
      },
    ],
    visualMap: {
      show: false,
      dimension: last,
      min: Math.min(...scores),
      max: Math.max(...scores),
      inRange: { color: objective.higherIsBetter ? [...BEST_FIRST].reverse() : BEST_FIRST },
    },
    series: [
      {
        type: "parallel",
        lineStyle: { width: scored.length > 100 ? 1 : 2, opacity: scored.length > 100 ? 0.45 : 0.8 },
        data: scored.map((row, at) => [
          ...names.map((name, index) =>
            continuous[index] ? row.parameters[name] : valueText(row.parameters[name]),
          ),
          scores[at],
        ]),
      },
    ],
  };
}

/** Many numbers are an axis of numbers; a few are steps, so that powers of two do not crowd at one end. */
function parameterAxis(values: readonly unknown[], name: string, dim: number) {
  if (isContinuous(values)) return { dim, name: parameterName(name), scale: true };
  const numbers = values.every((value) => typeof value === "number");
  const steps = numbers ? [...values].sort((a, b) => Number(a) - Number(b)) : values;
  return { dim, name: parameterName(name), type: "category", data: steps.map(valueText) };
}

const isContinuous = (values: readonly unknown[]): boolean =>
  values.length > MOST_STEPS && values.every((value) => typeof value === "number");
