/** Courses of a replay on one axis: values that hold for a step of time, and waits by how many jobs do not exceed them. */
import type { EChartsCoreOption } from "echarts/core";
import type { ReplayCourse, ReplayResult } from "../api/replayQueries";
import { visible } from "../components/UserText";
import { duration } from "../format/times";
import { courseName } from "../pool/replays";

/** Clear on light ground and on dark. What really happened is grey. */
const COLOURS = ["#8a93a5", "#3b82f6", "#e0820d", "#12a67c", "#c04bd6"];

/** Told apart without colours, too. */
const STROKES = ["dotted", "solid", "dashed", [8, 3, 2, 3], [2, 4]] as const;

const FRAME = {
  backgroundColor: "transparent",
  animation: false,
  color: COLOURS,
  grid: { left: 56, right: 16, top: 34, bottom: 26 },
  legend: { type: "scroll", top: 0 },
};

/** `[milliseconds, value]` of each step, and once more the last value at its end. */
export function stepPoints(values: readonly number[], sinceS: number, stepS: number): [number, number][] {
  const points = values.map((value, index): [number, number] => [(sinceS + index * stepS) * 1000, value]);
  const last = values.at(-1);
  if (last !== undefined) points.push([(sinceS + values.length * stepS) * 1000, last]);
  return points;
}

/** `[percent, seconds]` of each quantile. */
export function waitPoints(waits: readonly number[]): [number, number][] {
  return waits.map((wait, index) => [(100 * index) / Math.max(1, waits.length - 1), wait]);
}

const INTERVALS_S = [1, 5, 15, 60, 300, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 259_200, 604_800];
const MOST_INTERVALS = 6;

/** Between two lines of an axis of waits that ends at `mostS`: so that there are few, and each is a round time. */
export function intervalS(mostS: number): number {
  const fits = INTERVALS_S.find((interval) => mostS / interval <= MOST_INTERVALS);
  return fits ?? 604_800 * Math.ceil(mostS / 604_800 / MOST_INTERVALS);
}

export function overTime(
  { courses, since, step_s }: ReplayResult,
  values: (course: ReplayCourse) => readonly number[],
  max?: number,
): EChartsCoreOption {
  return {
    ...FRAME,
    tooltip: {
      trigger: "axis",
      confine: true,
      valueFormatter: (value: unknown) => (typeof value === "number" ? value.toFixed(1) : "–"),
    },
    xAxis: { type: "time", axisLabel: { hideOverlap: true } },
    yAxis: { type: "value", min: 0, max },
    series: courses.map((course, index) => ({
      ...line(course, index),
      step: "end",
      data: stepPoints(values(course), since, step_s),
    })),
  };
}

export function waitsByPart({ courses }: ReplayResult): EChartsCoreOption {
  return {
    ...FRAME,
    grid: { ...FRAME.grid, left: 70 },
    tooltip: {
      trigger: "axis",
      confine: true,
      valueFormatter: (value: unknown) => (typeof value === "number" ? duration(value) : "–"),
    },
    xAxis: { type: "value", min: 0, max: 100, axisLabel: { formatter: "{value} %" } },
    yAxis: {
      type: "value",
      min: 0,
      interval: intervalS(Math.max(0, ...courses.map((course) => course.max_wait_s ?? 0))),
      axisLabel: { formatter: (value: number) => duration(value) },
    },
    series: courses.map((course, index) => ({
      ...line(course, index),
      data: waitPoints(course.waits_s),
    })),
  };
}

function line(course: ReplayCourse, index: number) {
  return {
    type: "line",
    name: visible(courseName(course.name)),
    symbol: "none",
    lineStyle: { width: 1.8, type: STROKES[index] ?? "solid" },
    emphasis: { disabled: true },
  };
}
