import { useMemo } from "react";
import { Chart } from "../../charts/Chart";
import { byConcurrency } from "../../charts/levels";
import { FIGURES, figureText } from "../../tuning/figures";
import type { Level } from "../../tuning/levels";

const CHARTS = [
  { title: "Latency by load", names: ["p50_e2e_latency", "p90_e2e_latency", "p99_e2e_latency"] },
  { title: "Time to first token by load", names: ["mean_ttft"] },
  { title: "Tokens/s by load", names: ["mean_total_throughput", "mean_output_throughput"] },
] as const;

/** How latency and throughput go with the load, a line for each scenario. */
export function LevelCharts({ levels, name }: { levels: readonly Level[]; name: string }) {
  const drawn = useMemo(
    () =>
      CHARTS.map(({ title, names }) => {
        const figures = FIGURES.filter((figure) => names.some((known) => known === figure.name));
        return { title, figures, option: byConcurrency(levels, figures) };
      }).filter(({ figures }) =>
        levels.some((level) => figures.some((figure) => figure.name in level.figures)),
      ),
    [levels],
  );
  if (levels.length < 2) return null;
  return (
    <div className="columns gpu-charts">
      {drawn.map(({ title, figures, option }) => (
        <figure key={title} aria-label={title}>
          <figcaption>
            <h3>{title}</h3>
          </figcaption>
          <Chart
            label={`${title} of ${name}`}
            height={200}
            option={option}
            summary={levels.map((level) =>
              [
                `${level.scenario} at ${level.concurrency}:`,
                ...figures.map(
                  (figure) => `${figure.label} ${figureText(level.figures[figure.name], figure)}`,
                ),
              ].join(" "),
            )}
          />
        </figure>
      ))}
    </div>
  );
}
