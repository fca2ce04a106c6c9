import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { devicesQuery, type Job, jobsQuery } from "../../api/queries";
import { Chart } from "../../charts/Chart";
import { gantt, ROW_PX } from "../../charts/Gantt";
import { JobLink } from "../../components/JobLink";
import { Panel } from "../../components/Panel";
import { Empty, Shown } from "../../components/states";
import { UserText } from "../../components/UserText";
import { moment } from "../../format/times";
import { counted } from "../../format/units";
import { type Span, type Timeline, type TimelineHours, timelineOf } from "../../jobs/timeline";
import { useNow } from "../../live/useNow";

const MOST_BARS_IN_TABLE = 200;
const REDRAW_MS = 15_000;
const AROUND_PX = 40;

/** Who had, has and is expected to have each device, so long before now and after it. */
export function TimelinePanel({ hours }: { hours: TimelineHours }) {
  const nowS = useNow(REDRAW_MS);
  const devices = useQuery(devicesQuery);
  const started = useQuery(jobsQuery({ all: true, sort: "-started", limit: 1000 }));
  const waiting = useQuery(jobsQuery({ phase: "PENDING", limit: 200, sort: "id", starts: true }));
  return (
    <Panel
      title="Timeline"
      aside={<span className="quiet">dashed: expected, on devices that are free then</span>}
    >
      <Shown query={started} what="the jobs">
        {(jobs) => (
          <Drawn
            jobs={jobs}
            waiting={waiting.data ?? []}
            devices={devices.data ?? []}
            nowS={nowS}
            spanS={Number.parseInt(hours, 10) * 3600}
          />
        )}
      </Shown>
    </Panel>
  );
}

function Drawn({
  jobs,
  waiting,
  devices,
  nowS,
  spanS,
}: {
  jobs: Job[];
  waiting: Job[];
  devices: Parameters<typeof timelineOf>[1];
  nowS: number;
  spanS: number;
}) {
  const times = useMemo(() => ({ fromS: nowS - spanS, toS: nowS + spanS, nowS }), [nowS, spanS]);
  const timeline = useMemo(() => {
    const known = new Map([...jobs, ...waiting].map((job) => [job.id, job]));
    return timelineOf([...known.values()], devices, times);
  }, [jobs, waiting, devices, times]);
  const option = useMemo(() => gantt(timeline, times), [timeline, times]);
  if (!timeline.rows.length) return <Empty title="There is no GPU" />;
  return (
    <>
      <Chart
        option={option}
        label={`${counted(timeline.spans.length, "bar")} of jobs on ${counted(timeline.rows.length, "device")}; the table below has the same`}
        height={timeline.rows.length * ROW_PX + AROUND_PX}
      />
      {timeline.elsewhere.length > 0 && (
        <p className="quiet">
          Expected, on devices not known yet:{" "}
          {timeline.elsewhere.slice(0, 20).map((job) => (
            <span key={job.id}>
              <JobLink job={job} /> {moment(job.expected_start)};{" "}
            </span>
          ))}
        </p>
      )}
      <details>
        <summary>As a table</summary>
        <Table timeline={timeline} />
      </details>
    </>
  );
}

const WORDS: Record<Span["is"], string> = { past: "had it", running: "has it", expected: "is expected" };

function Table({ timeline }: { timeline: Timeline }) {
  const bars = [...timeline.spans].sort((a, b) => b.from - a.from);
  return (
    <section className="table-box" aria-label="The timeline as a table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>Device</th>
            <th>Job</th>
            <th>Who</th>
            <th>What</th>
            <th>From</th>
            <th>To, at most</th>
          </tr>
        </thead>
        <tbody>
          {bars.slice(0, MOST_BARS_IN_TABLE).map((span) => (
            <tr key={`${span.job.id} ${span.row} ${span.from}`}>
              <td>
                <UserText text={timeline.rows[span.row] ?? ""} />
              </td>
              <td>
                <JobLink job={span.job} />
              </td>
              <td>
                <UserText text={span.job.user} />
              </td>
              <td>{WORDS[span.is]}</td>
              <td>{moment(span.from)}</td>
              <td>{span.open ? "no limit" : moment(span.to)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {bars.length > MOST_BARS_IN_TABLE && (
        <p className="quiet">{counted(bars.length - MOST_BARS_IN_TABLE, "older bar")} left out</p>
      )}
    </section>
  );
}
