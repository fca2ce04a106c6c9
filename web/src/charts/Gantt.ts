/** Bars of jobs over time, a row for each device. */
import { CustomChart } from "echarts/charts";
import { MarkLineComponent } from "echarts/components";
import { type EChartsCoreOption, graphic, use as register } from "echarts/core";
import { visible } from "../components/UserText";
import type { Span, Timeline } from "../jobs/timeline";
import { moment } from "../format/times";

register([CustomChart, MarkLineComponent]);

export const ROW_PX = 20;
const BAR_PART = 0.72;
const HUES = [205, 165, 280, 35, 330, 95, 250, 15];

interface Coordinates {
  value: (dimension: number) => number;
  coord: (point: [number, number]) => [number, number];
  size: (point: [number, number]) => [number, number];
}
interface Drawn {
  coordSys: { x: number; y: number; width: number; height: number };
}

export function gantt(
  { rows, spans }: Timeline,
  { fromS, toS, nowS }: { fromS: number; toS: number; nowS: number },
): EChartsCoreOption {
  return {
    backgroundColor: "transparent",
    animation: false,
    grid: { left: 90, right: 14, top: 8, bottom: 26 },
    tooltip: {
      confine: true,
      // Plain text: what a user named is in it.
      renderMode: "richText",
      formatter: (at: { dataIndex: number }) => {
        const span = spans[at.dataIndex];
        return span ? told(span) : "";
      },
    },
    xAxis: { type: "time", min: fromS * 1000, max: toS * 1000, axisLabel: { hideOverlap: true } },
    yAxis: { type: "category", data: rows.map(visible), inverse: true, axisTick: { show: false } },
    series: [
      {
        type: "custom",
        renderItem: (drawn: Drawn, at: Coordinates) => bar(spans, drawn, at),
        encode: { x: [1, 2], y: 0 },
        data: spans.map((span, index) => [span.row, span.from * 1000, span.to * 1000, index]),
        markLine: {
          silent: true,
          symbol: "none",
          label: { show: false },
          data: [{ xAxis: nowS * 1000 }],
        },
      },
    ],
  };
}

function bar(spans: readonly Span[], drawn: Drawn, at: Coordinates) {
  const span = spans[at.value(3)];
  if (!span) return undefined;
  const [left, middle] = at.coord([at.value(1), at.value(0)]);
  const [right] = at.coord([at.value(2), at.value(0)]);
  const height = at.size([0, 1])[1] * BAR_PART * Math.max(0.25, span.shareMilli / 1000);
  const whole = { x: left, y: middle - height / 2, width: Math.max(2, right - left), height };
  const shape = graphic.clipRectByRect(whole, drawn.coordSys);
  if (!shape) return undefined;
  const hue = HUES[(span.job.sequence ?? 0) % HUES.length] ?? 205;
  const expected = span.is === "expected";
  return {
    type: "rect",
    shape: { ...shape, r: 2 },
    style: {
      fill: `hsla(${hue}, 55%, 50%, ${expected ? 0.18 : span.is === "past" ? 0.55 : 0.9})`,
      stroke: `hsl(${hue}, 55%, 50%)`,
      lineWidth: 1,
      lineDash: expected ? [4, 3] : undefined,
    },
  };
}

/** What a bar says where one points at it. */
export function told(span: Span): string {
  const { job } = span;
  const to = span.open ? "no time limit" : `${span.is === "past" ? "to" : "at most to"} ${moment(span.to)}`;
  const from = span.is === "expected" ? `expected ${moment(span.from)}` : `from ${moment(span.from)}`;
  return `job ${job.id} ${visible(job.name)} of ${visible(job.user)}\n${from}, ${to}`;
}
