import type { History } from "../api/poolQueries";
import { Panel } from "../components/Panel";
import { Empty } from "../components/states";
import { visible } from "../components/UserText";
import { Chart } from "./Chart";
import { COMPARED_CHARTS } from "./series";
import { lines } from "./timeSeries";

/** A chart for each reading, with a line for each history, all on one axis of time. */
export function HistoryCharts({
  group,
  range,
  histories,
}: {
  group: string;
  range: string;
  histories: readonly { name: string; history: History }[];
}) {
  const first = histories[0]?.history;
  const drawn = COMPARED_CHARTS.filter(({ series }) =>
    histories.some(({ history }) => history.series[series]?.length),
  );
  if (!first || !drawn.length)
    return <Empty title={`Nothing was read in ${range}`}>Choose a longer one.</Empty>;
  return (
    <div className="columns">
      {drawn.map(({ series, title, unit, max, scale }) => (
        <Panel key={series} title={`${title} (${unit})`}>
          <Chart
            group={group}
            label={`${title} of ${histories.map(({ name }) => visible(name)).join(", ")} over ${range}`}
            option={lines(
              histories.map(({ name, history }) => ({
                name: visible(name),
                points: (history.series[series] ?? []).map((point) => ({
                  ...point,
                  mean: point.mean * scale,
                })),
              })),
              { fromS: first.from, toS: first.to, stepS: first.step_s, unit, max },
            )}
          />
        </Panel>
      ))}
    </div>
  );
}
