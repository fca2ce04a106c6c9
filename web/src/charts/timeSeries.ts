/** Lines over time, as the server's history has them. */
import type { EChartsCoreOption } from "echarts/core";

export interface Point {
  t: number;
  min: number;
  mean: number;
  max: number;
}

export interface Line {
  name: string;
  points: readonly Point[];
}

/** A step longer than this many steps without a point is a gap. */
const GAP_STEPS = 1.5;

/** `[milliseconds, mean]` of each point, with a null where readings are missing: a gap is not drawn over. */
export function withGaps(points: readonly Point[], stepS: number, scale = 1): [number, number | null][] {
  const drawn: [number, number | null][] = [];
  let before: number | undefined;
  for (const point of points) {
    if (before !== undefined && point.t - before > GAP_STEPS * stepS)
      drawn.push([(before + stepS) * 1000, null]);
    drawn.push([point.t * 1000, point.mean * scale]);
    before = point.t;
  }
  return drawn;
}

/** What lines tell, in words, for those who do not see them. */
export function summaryOf(series: readonly Line[], unit: string, scale = 1): string[] {
  return series.map(({ name, points }) => {
    const last = points.at(-1);
    if (!last) return `${name}: no reading`;
    const means = points.map((point) => point.mean);
    const [least, most] = means.reduce(
      ([low, high], mean) => [Math.min(low, mean), Math.max(high, mean)],
      [last.mean, last.mean],
    );
    const told = (value: number) => `${(value * scale).toFixed(1)} ${unit}`;
    const mean = means.reduce((sum, value) => sum + value, 0) / means.length;
    return `${name}: mean ${told(mean)}, least ${told(least)}, most ${told(most)}, last ${told(last.mean)}`;
  });
}

export function lines(
  series: readonly Line[],
  {
    fromS,
    toS,
    stepS,
    unit,
    max,
    scale,
  }: { fromS: number; toS: number; stepS: number; unit: string; max?: number; scale?: number },
): EChartsCoreOption {
  return {
    backgroundColor: "transparent",
    animation: false,
    grid: { left: 52, right: 14, top: series.length > 1 ? 34 : 12, bottom: 26 },
    legend: series.length > 1 ? { type: "scroll", top: 0 } : undefined,
    tooltip: {
      trigger: "axis",
      confine: true,
      valueFormatter: (value: unknown) =>
        typeof value === "number" ? `${value.toFixed(1)} ${unit}` : "no reading",
    },
    xAxis: {
      type: "time",
      min: fromS * 1000,
      max: toS * 1000,
      splitNumber: 4,
      axisLabel: { hideOverlap: true },
    },
    yAxis: { type: "value", min: 0, max, axisLabel: { formatter: `{value} ${unit}` } },
    series: series.map((line) => ({
      type: "line",
      name: line.name,
      data: withGaps(line.points, stepS, scale),
      showSymbol: line.points.length < 3,
      connectNulls: false,
      lineStyle: { width: 1.6 },
      emphasis: { disabled: true },
      sampling: "lttb",
    })),
  };
}
