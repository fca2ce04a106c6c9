import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Device, Job, Queue } from "../api/queries";
import { devicesQuery, jobsQuery, queuesQuery } from "../api/queries";
import { FiringAlerts } from "../components/FiringAlerts";
import { HeatMap } from "../components/HeatMap";
import { JobLink } from "../components/JobLink";
import { Figures, Panel } from "../components/Panel";
import { Empty, Shown } from "../components/states";
import { UserText } from "../components/UserText";
import { duration, moment } from "../format/times";
import { counted, share, watts } from "../format/units";
import { JobLines } from "../jobs/jobLines";
import { useNow } from "../live/useNow";
import { heldDevices, holdingsByUser } from "../pool/holdings";
import { HoldersPanel } from "./overview/HoldersPanel";
import "../styles/pool.css";

const FIRST_WAITING = 8;
const MOST_WAITING = 200;
const IDLE_PERCENT = 5;
const IDLE_AFTER_S = 600;

/** What is free, why jobs wait, how well the devices are used, and what is wrong. */
export function OverviewPage() {
  const devices = useQuery(devicesQuery);
  const waiting = useQuery(jobsQuery({ phase: "PENDING", limit: MOST_WAITING, sort: "id", starts: true }));
  const running = useQuery(jobsQuery({ phase: "STARTING,RUNNING,STOPPING", limit: 500 }));
  return (
    <>
      <div className="page-head">
        <h1>Overview</h1>
        <Link to="/queue" className="button">
          All jobs
        </Link>
      </div>
      <Shown query={devices} what="the devices">
        {(rows) => (
          <>
            <Numbers devices={rows} waiting={waiting.data} running={running.data} />
            <Panel title="Devices" aside={<span className="quiet">by use and state</span>}>
              {rows.length ? (
                <HeatMap devices={rows} />
              ) : (
                <Empty title="No GPU was found">
                  <code>corral doctor</code> shows why. Jobs without GPUs run anyway.
                </Empty>
              )}
            </Panel>
            {rows.length > 0 && <HoldersPanel devices={rows} running={running.data ?? []} />}
          </>
        )}
      </Shown>
      <div className="columns">
        <Panel title="Alerts" aside={<Link to="/alerts">all of them</Link>}>
          <FiringAlerts />
        </Panel>
        <Panel title="Waiting" aside={<Link to="/queue">the queue</Link>}>
          <Shown query={waiting} what="the queue">
            {(jobs) => <Waiting jobs={jobs} />}
          </Shown>
        </Panel>
        <Panel title="Queues">
          <Queues />
        </Panel>
        <Panel title="Holding GPUs without using them">
          {devices.data && running.data && <Idle devices={devices.data} running={running.data} />}
        </Panel>
      </div>
    </>
  );
}

function Numbers({ devices, waiting, running }: { devices: Device[]; waiting?: Job[]; running?: Job[] }) {
  const whole = devices.filter((device) => !device.parent);
  const free = devices.filter((device) => device.state === "free");
  const used = whole.map((device) => device.utilization_pct).filter((value) => value != null);
  const power = whole.map((device) => device.power_w).filter((value) => value != null);
  const broken = devices.filter((device) =>
    ["quarantined", "unhealthy", "unreadable"].includes(device.state),
  ).length;
  const holdings = holdingsByUser(heldDevices(devices, running ?? []));
  const users = holdings.filter((holding) => !holding.outside);
  return (
    <Figures
      figures={[
        { name: "Free now", value: free.length, more: `of ${counted(whole.length, "GPU")}` },
        {
          name: "Held by",
          value: users.length,
          more: users.length === 1 ? "user" : "users",
        },
        { name: "Running", value: running?.length ?? "–", more: running?.length === 1 ? "job" : "jobs" },
        {
          name: "Waiting",
          value: waiting && waiting.length >= MOST_WAITING ? `${MOST_WAITING}+` : (waiting?.length ?? "–"),
          more: waiting?.length === 1 ? "job" : "jobs",
        },
        {
          name: "Mean utilization",
          value: used.length ? `${Math.round(sumOf(used) / used.length)} %` : "–",
          more: used.length < whole.length ? `of ${used.length}` : "",
        },
        { name: "Power", value: power.length ? watts(sumOf(power)) : "–" },
        { name: "Out of order", value: broken, more: broken ? "see below" : "" },
      ]}
    />
  );
}

const sumOf = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

function Waiting({ jobs }: { jobs: Job[] }) {
  const now = useNow(10_000);
  if (!jobs.length) return <Empty title="No jobs wait" />;
  const first = [...jobs].sort(
    (a, b) => (a.expected_start ?? Number.POSITIVE_INFINITY) - (b.expected_start ?? Number.POSITIVE_INFINITY),
  );
  const lines = new JobLines().of(first, new Set());
  const left = sumOf(lines.slice(FIRST_WAITING).map(({ elements }) => elements?.length ?? 1));
  return (
    <div className="table-box">
      <table>
        <thead>
          <tr>
            <th>Job</th>
            <th>Who</th>
            <th className="number">GPUs</th>
            <th>Why</th>
            <th>Starts</th>
          </tr>
        </thead>
        <tbody>
          {lines.slice(0, FIRST_WAITING).map(({ key, job, elements }) => (
            <tr key={key}>
              <td>
                <JobLink job={job} />
                {elements && <span className="quiet"> and {elements.length - 1} more of its array</span>}
              </td>
              <td>
                <UserText text={job.user} />
              </td>
              <td className="number">{job.gpus ?? "–"}</td>
              <td>{job.wait ?? (job.held ? "on hold" : "–")}</td>
              <td title={job.expected_start_is ?? ""}>
                {job.expected_start == null
                  ? `waits ${duration(now - (job.submitted_at ?? now))}`
                  : moment(job.expected_start, now)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {left > 0 && <p className="quiet">{counted(left, "job")} more</p>}
    </div>
  );
}

function Queues() {
  const queues = useQuery(queuesQuery);
  return (
    <Shown query={queues} what="the queues">
      {(rows) => (
        <table>
          <thead>
            <tr>
              <th>Queue</th>
              <th className="number">GPUs in use</th>
              <th className="number">Waiting</th>
              <th className="number">Left to you</th>
            </tr>
          </thead>
          <tbody>
            {rows
              .filter((row: Queue) => row.kind === "queue")
              .map((row: Queue) => (
                <tr key={row.name}>
                  <td>
                    <Link to="/queue" search={{ queue: row.name }}>
                      <UserText text={row.name} />
                    </Link>
                    {row.parent && (
                      <span className="quiet">
                        {" "}
                        below <UserText text={row.parent} />
                      </span>
                    )}
                  </td>
                  <td className="number">{share(row.used_milli)}</td>
                  <td className="number">{row.waiting}</td>
                  <td className="number">{row.left_milli == null ? "no limit" : share(row.left_milli)}</td>
                </tr>
              ))}
          </tbody>
        </table>
      )}
    </Shown>
  );
}

/** Jobs all of whose devices have been read, and are idle. */
function Idle({ devices, running }: { devices: Device[]; running: Job[] }) {
  const now = useNow(10_000);
  const use = new Map(devices.map((device) => [device.uuid, device.utilization_pct]));
  const idle = running.filter(
    (job) =>
      job.devices.length > 0 &&
      now - (job.started_at ?? now) > IDLE_AFTER_S &&
      job.devices.every((uuid) => (use.get(uuid) ?? 100) < IDLE_PERCENT),
  );
  if (!idle.length) return <Empty title="None" />;
  return (
    <table>
      <thead>
        <tr>
          <th>Job</th>
          <th>Who</th>
          <th className="number">GPUs</th>
          <th className="number">For</th>
        </tr>
      </thead>
      <tbody>
        {idle.map((job) => (
          <tr key={job.id}>
            <td>
              <JobLink job={job} />
            </td>
            <td>
              <UserText text={job.user} />
            </td>
            <td className="number">{job.devices.length}</td>
            <td className="number">{duration(now - (job.started_at ?? now))}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
