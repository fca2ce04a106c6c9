import { useQuery } from "@tanstack/react-query";
import { devicesQuery, type JobDetail, jobHistoryQuery } from "../../api/queries";
import { Chart } from "../../charts/Chart";
import { lines } from "../../charts/timeSeries";
import { Facts, Panel } from "../../components/Panel";
import { Empty, Failed } from "../../components/states";
import { UserText } from "../../components/UserText";
import { duration } from "../../format/times";
import { memory, shortModel, UNKNOWN } from "../../format/units";
import { inPercentOf, type Measured, measured, memoryTotalMib } from "./gpuFigures";

const CHARTS = [
  { series: "utilization_pct", title: "GPU Utilization (%)", unit: "%", max: 100, summed: false },
  { series: "memory_used_mib", title: "Memory Usage (%)", unit: "%", max: 100, summed: true },
  { series: "temperature_c", title: "Temperature (°C)", unit: "°C", max: undefined, summed: false },
  { series: "power_w", title: "Power Draw (W)", unit: "W", max: undefined, summed: true },
] as const;

/** What was measured of a job's GPUs in its last attempt: each GPU in a table, and all of them over time. */
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
          <Table stats={found.gpu_stats} />
          <Charts job={job} />
        </>
      ) : (
        <Empty title="Nothing was measured yet">Readings come some seconds after its start.</Empty>
      )}
    </Panel>
  );
}

function Table({ stats }: { stats: NonNullable<JobDetail["gpu_monitoring"]>["gpu_stats"] }) {
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

function Charts({ job }: { job: JobDetail }) {
  const history = useQuery(jobHistoryQuery(job.id, job.ended_at == null));
  const devices = useQuery(devicesQuery);
  if (history.error && !history.data)
    return <Failed error={history.error} retry={() => void history.refetch()} />;
  const totalMib = memoryTotalMib(job, devices.data ?? []);
  const several = job.grant.length > 1;
  return (
    <div className="columns gpu-charts">
      {CHARTS.map(({ series, title, unit, max, summed }) => {
        const points = history.data?.series[series] ?? [];
        const drawn = series === "memory_used_mib" ? inPercentOf(points, totalMib) : points;
        return (
          <figure key={series} aria-label={title}>
            <figcaption>
              <h3>{title}</h3>
              {several && <span className="quiet">{summed ? "of all together" : "mean of all"}</span>}
            </figcaption>
            {history.data && drawn.length ? (
              <Chart
                group={`job ${job.id}`}
                height={180}
                label={`${title} of job ${job.id} over time`}
                option={lines([{ name: title, points: drawn }], {
                  fromS: history.data.from,
                  toS: history.data.to,
                  stepS: history.data.step_s,
                  unit,
                  max,
                })}
              />
            ) : (
              <p className="quiet chart-empty">{history.isPending ? "Reading it …" : "No reading of it"}</p>
            )}
          </figure>
        );
      })}
    </div>
  );
}
