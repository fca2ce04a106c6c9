/** Figures of an experiment by how many requests there were at a time. */
import type { EChartsCoreOption } from "echarts/core";
import { visible } from "../components/UserText";
import { type Figure, figureText } from "../tuning/figures";
import type { Level } from "../tuning/levels";

const STROKES = ["solid", "dashed", "dotted"] as const;

/** A line for each figure of each scenario. */
export function byConcurrency(levels: readonly Level[], figures: readonly Figure[]): EChartsCoreOption {
  const scenarios = [...new Set(levels.map((level) => level.scenario))];
  const loads = [...new Set(levels.map((level) => level.concurrency))].sort((a, b) => a - b);
  const figure = figures[0];
  const text = (value: unknown) =>
    typeof value === "number" && figure ? figureText(value, figure) : "not measured";
  return {
    backgroundColor: "transparent",
    animation: false,
    grid: { left: 64, right: 14, top: 34, bottom: 26 },
    legend: { type: "scroll", top: 0 },
    tooltip: { trigger: "axis", confine: true, renderMode: "richText", valueFormatter: text },
    // Loads are steps: they are chosen in powers of two or so.
    xAxis: { type: "category", data: loads.map(String) },
    yAxis: { type: "value", min: 0, axisLabel: { formatter: text, hideOverlap: true } },
    series: scenarios.flatMap((scenario) =>
      figures.map(({ name, label }, at) => ({
        type: "line",
        name: scenarios.length > 1 ? `${visible(scenario)} ${label}` : label,
        lineStyle: { width: 1.8, type: STROKES[at % STROKES.length] },
        emphasis: { disabled: true },
        data: loads.map(
          (load) =>
            levels.find((level) => level.scenario === scenario && level.concurrency === load)?.figures[
              name
            ] ?? null,
        ),
      })),
    ),
  };
}
