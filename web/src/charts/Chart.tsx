import { LineChart } from "echarts/charts";
import { GridComponent, LegendComponent, TooltipComponent } from "echarts/components";
import { connect, type EChartsCoreOption, init, use as register } from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";
import { useEffect, useRef } from "react";
import { useThemeName } from "../components/theme";

register([LineChart, GridComponent, TooltipComponent, LegendComponent, CanvasRenderer]);

/** A chart. Charts of one `group` show one moment together; `summary` is read aloud in place of the lines. */
export function Chart({
  option,
  label,
  summary,
  group,
  height,
}: {
  option: EChartsCoreOption;
  label: string;
  summary?: readonly string[];
  group?: string;
  height?: number;
}) {
  const box = useRef<HTMLDivElement>(null);
  const theme = useThemeName();
  const chart = useRef<ReturnType<typeof init> | null>(null);

  useEffect(() => {
    if (!box.current) return;
    const made = init(box.current, theme === "dark" ? "dark" : null, { renderer: "canvas" });
    chart.current = made;
    if (group) {
      made.group = group;
      connect(group);
    }
    const resized = new ResizeObserver(() => made.resize());
    resized.observe(box.current);
    return () => {
      resized.disconnect();
      made.dispose();
      chart.current = null;
    };
  }, [group, theme]);

  useEffect(() => {
    // A chart that was made anew, for another theme, has nothing yet.
    chart.current?.setOption(option, { replaceMerge: ["series"] });
  }, [option, group, theme]);

  return (
    <>
      <div ref={box} className="chart" role="img" aria-label={label} style={height ? { height } : {}} />
      {summary && (
        <ul className="only-read-aloud" aria-label={`${label}, in words`}>
          {summary.map((line, at) => (
            <li key={at}>{line}</li>
          ))}
        </ul>
      )}
    </>
  );
}
