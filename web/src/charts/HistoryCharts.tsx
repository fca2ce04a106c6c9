import { useMemo } from "react";
import { momentsOf, type Range } from "../api/historyQueries";
import { Panel } from "../components/Panel";
import { Empty, Failed, Loading } from "../components/states";
import { visible } from "../components/UserText";
import { momentInFull } from "../format/times";
import type { Compared } from "../pool/choices";
import { Chart } from "./Chart";
import type { Charted } from "./series";
import { lines, summaryOf } from "./timeSeries";
import { type Histories, useHistories } from "./useHistories";

/** A chart for each reading that there was, with a line for each of some nodes, devices or jobs, all on one axis of time. */
export function HistoryCharts({
  what,
  of,
  range,
  charted,
}: {
  what: Compared;
  of: readonly { id: string; name: string }[];
  range: Range;
  charted: readonly Charted[];
}) {
  const histories = useHistories(
    what,
    of.map(({ id }) => id),
    range,
    charted,
  );
  // Names come anew with the readings of each second; nothing is drawn again for that.
  const names = JSON.stringify(of.map(({ id, name }) => [id, visible(name)]));
  const charts = useMemo(
    () => chartsOf(histories, new Map(JSON.parse(names) as [string, string][]), charted),
    [histories, names, charted],
  );
  return (
    <>
      {histories.failed.map(({ id, error, retry }) => (
        <Failed key={id} error={error} retry={retry} />
      ))}
      {charts.length > 0 ? (
        <div className="columns">
          {charts.map(({ title, label, option, summary }) => (
            <Panel key={title} title={title}>
              <Chart group={what} label={label} option={option} summary={summary} />
            </Panel>
          ))}
        </div>
      ) : histories.isPending ? (
        <Loading what="the history" />
      ) : (
        histories.found.length > 0 && (
          <Empty title={`No readings ${rangeWords(histories.range)}`}>Choose a longer range.</Empty>
        )
      )}
    </>
  );
}

function rangeWords(range: Range): string {
  const moments = momentsOf(range);
  return moments ? `from ${momentInFull(moments[0])} to ${momentInFull(moments[1])}` : `over ${range}`;
}

function chartsOf(histories: Histories, names: ReadonlyMap<string, string>, charted: readonly Charted[]) {
  const { found, range } = histories;
  const first = found[0]?.history;
  if (!first) return [];
  return charted
    .filter(({ series }) => found.some(({ history }) => history.series[series]?.length))
    .map(({ series, title, unit, max, scale }) => {
      const drawn = found.map(({ id, history }) => ({
        name: names.get(id) ?? id,
        points: history.series[series] ?? [],
      }));
      return {
        title: `${title} (${unit})`,
        label: `${title} of ${drawn.map(({ name }) => name).join(", ")} ${rangeWords(range)}`,
        summary: summaryOf(drawn, unit, scale),
        option: lines(drawn, { fromS: first.from, toS: first.to, stepS: first.step_s, unit, max, scale }),
      };
    });
}
