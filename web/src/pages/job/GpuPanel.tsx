import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { type JobDetail } from "../../api/queries";
import { jobGpusQuery } from "../../api/historyQueries";
import { Chart } from "../../charts/Chart";
import type { Charted } from "../../charts/series";
import { lines, summaryOf } from "../../charts/timeSeries";
import { Facts, Panel } from "../../components/Panel";
import { Empty, Failed, Loading } from "../../components/states";
import { UserText } from "../../components/UserText";
import { duration } from "../../format/times";
import { memory, shortModel, UNKNOWN } from "../../format/units";
import { gpuLines, isSpread, type JobGpus, type Measured, measured } from "./gpuFigures";

const CHARTS: readonly Charted[] = [
  { series: "utilization_pct", title: "GPU Utilization (%)", unit: "%", max: 100 },
  { series: "memory_used_mib", title: "Memory Usage (%)", unit: "%", max: 100 },
  { series: "temperature_c", title: "Temperature (°C)", unit: "°C" },
  { series: "power_w", title: "Power Draw (W)", unit: "W" },
];
const SERIES = CHARTS.map(({ series }) => series);

function Nothing({ ended }: { ended: boolean }) {
  if (ended) return <Empty title="Nothing was measured">It ended before its GPUs were read.</Empty>;
  return <Empty title="Nothing was measured yet">Readings come some seconds after its start.</Empty>;
}

/** What was measured of a job's GPUs in its last attempt: each GPU in a table, and over time. */
export function GpuPanel({ job }: { job: JobDetail }) {
  const found = job.gpu_monitoring;
  if (!job.grant.length) return null;
  return (
    <Panel
      title="GPU Monitoring"
      aside={job.attempts > 1 && <span className="quiet">of attempt {job.attempts}</span>}
    >
      {found ? (
        <>
          <Facts
            facts={[
              ["duration", duration(found.monitoring_duration_seconds)],
              ["samples", found.sample_count],
            ]}
          />
          <GpuTable stats={found.gpu_stats} />
          <GpuCharts job={job} />
        </>
      ) : (
        <Nothing ended={job.ended_at != null} />
      )}
    </Panel>
  );
}

/** A row for each GPU. */
export function GpuTable({ stats }: { stats: NonNullable<JobDetail["gpu_monitoring"]>["gpu_stats"] }) {
  return (
    <section className="table-box" aria-label="Each GPU" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>GPU ID</th>
            <th>Model</th>
            <th className="number">Utilization</th>
            <th className="number">Memory</th>
            <th className="number">Temperature</th>
            <th className="number">Power</th>
          </tr>
        </thead>
        <tbody>
          {Object.entries(stats).map(([id, gpu]) => (
            <tr key={id}>
              <td>
                <UserText text={id} />
              </td>
              <td>{gpu.name ? <UserText text={shortModel(gpu.name)} /> : UNKNOWN}</td>
              <Cell of={measured(gpu.utilization, (value) => `${value.toFixed(0)} %`)} />
              <Cell
                of={measured(gpu.memory_used_mb, memory)}
                more={gpu.memory_usage_percent && `${gpu.memory_usage_percent.mean.toFixed(0)} %`}
              />
              <Cell of={measured(gpu.temperature_c, (value) => `${value.toFixed(0)} °C`)} />
              <Cell of={measured(gpu.power_draw_w, (value) => `${value.toFixed(0)} W`)} />
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Cell({ of, more }: { of: Measured | null; more?: string | null }) {
  if (!of) return <td className="number">{UNKNOWN}</td>;
  return (
    <td className="number">
      {of.mean} {more && `(${more}) `}
      <br />
      <small className="quiet">
        {of.min} to {of.max}
      </small>
    </td>
  );
}

/** A line for each GPU over the time of the last run. */
export function GpuCharts({ job }: { job: JobDetail }) {
  const history = useQuery(jobGpusQuery(job.id, SERIES, job.ended_at == null));
  if (history.error && !history.data)
    return <Failed error={history.error} retry={() => void history.refetch()} />;
  if (!history.data) return <Loading what="what was measured" />;
  return <GpuLines history={history.data} of={`job ${job.id}`} />;
}

/** A chart for each series, with a line for each GPU. */
export function GpuLines({ history, of }: { history: JobGpus; of: string }) {
  const drawn = useMemo(
    () => CHARTS.map((charted) => ({ charted, ...drawingOf(history, charted) })),
    [history],
  );
  return (
    <>
      {isSpread(history) && (
        <p className="quiet">
          {history.gpus.length} GPUs are too many for a line each: the charts show their highest, mean and
          lowest values at each moment.
        </p>
      )}
      <div className="columns gpu-charts">
        {drawn.map(({ charted: { title }, lines, option, summary }) => (
          <figure key={title} aria-label={title}>
            <figcaption>
              <h3>{title}</h3>
            </figcaption>
            {lines.length ? (
              <Chart
                group={of}
                height={180}
                label={`${title} of ${of} over time`}
                option={option}
                summary={summary}
              />
            ) : (
              <p className="quiet chart-empty">No reading of it</p>
            )}
          </figure>
        ))}
      </div>
    </>
  );
}

function drawingOf(history: JobGpus, { series, unit, max }: Charted) {
  const drawn = gpuLines(history, series);
  const axes = { fromS: history.from, toS: history.to, stepS: history.step_s, unit, max };
  return { lines: drawn, option: lines(drawn, axes), summary: summaryOf(drawn, unit) };
}
