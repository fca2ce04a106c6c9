import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { type JobDetail, jobQuery } from "../api/queries";
import { JobLink } from "../components/JobLink";
import { Facts, Figures, Panel } from "../components/Panel";
import { Empty, Shown } from "../components/states";
import { Tag } from "../components/Tag";
import { phaseTone } from "../components/tones";
import { UserText, visible } from "../components/UserText";
import { duration, momentInFull } from "../format/times";
import { counted, memory, share, shortModel } from "../format/units";
import { useNow } from "../live/useNow";
import { commandLine } from "../jobs/commandLine";
import { Why } from "../jobs/Why";
import { LogView } from "../log/LogView";
import { GpuPanel } from "./job/GpuPanel";
import { JobActions } from "./job/JobActions";
import { Attempts, StateHistory } from "./job/JobHistory";
import { UsePanel } from "./job/UsePanel";
import "../styles/jobs.css";

/** Everything about one job. */
export function JobPage() {
  const { id } = useParams({ from: "/jobs/$id" });
  const job = useQuery(jobQuery(id));
  return (
    <Shown query={job} what={`job ${id}`}>
      {(row) => (
        <>
          <div className="page-head">
            <h1>
              Job {row.id} {row.name && <UserText text={row.name} className="quiet" />}
            </h1>
            <JobActions job={row} />
          </div>
          <Numbers job={row} />
          <Why id={row.id} />
          <GpuPanel job={row} />
          <div className="columns">
            <StateHistory job={row} />
            <UsePanel job={row} />
            <Devices job={row} />
            <Attempts job={row} />
            <About job={row} />
            <Parameters job={row} />
          </div>
          <Panel title="Log">
            <LogView key={row.id} job={row} />
          </Panel>
        </>
      )}
    </Shown>
  );
}

function Numbers({ job }: { job: JobDetail }) {
  const now = useNow();
  const ran = job.started_at == null ? null : (job.ended_at ?? now) - job.started_at;
  return (
    <Figures
      figures={[
        {
          name: "Phase",
          value: (
            <Tag
              word={job.held && job.phase === "PENDING" ? "on hold" : job.phase}
              tone={phaseTone(job.phase)}
            />
          ),
        },
        { name: "GPUs", value: share(job.gpus_milli ?? (job.gpus == null ? null : job.gpus * 1000)) },
        {
          name: "Ran",
          value: duration(ran),
          more: job.time_limit_s ? `of ${duration(job.time_limit_s)}` : "",
        },
        { name: "Attempts", value: job.attempts },
        ...(job.exit_code == null ? [] : [{ name: "Exit code", value: job.exit_code }]),
      ]}
    />
  );
}

function Devices({ job }: { job: JobDetail }) {
  return (
    <Panel title="Devices">
      {job.grant.length ? (
        <table>
          <thead>
            <tr>
              <th className="number">Rank</th>
              <th>GPU</th>
              <th>Model</th>
              <th className="number">Share</th>
              <th className="number">Memory</th>
            </tr>
          </thead>
          <tbody>
            {job.grant.map((device) => (
              <tr key={`${device.rank} ${device.uuid}`}>
                <td className="number">{device.rank}</td>
                <td>
                  <Link to="/devices/$uuid" params={{ uuid: device.uuid }}>
                    <UserText text={`${device.node}:${device.index ?? "?"}`} />
                  </Link>
                </td>
                <td>{device.name ? shortModel(device.name, device.mig_profile) : "–"}</td>
                <td className="number">{share(device.share_milli)}</td>
                <td className="number">{device.memory_mib == null ? "all" : memory(device.memory_mib)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <Empty title="None" />
      )}
    </Panel>
  );
}

function About({ job }: { job: JobDetail }) {
  return (
    <Panel title="About">
      <Facts
        facts={[
          [
            "who",
            <Link key="user" to="/queue" search={{ user: job.user, ended: true }}>
              <UserText text={job.user} />
            </Link>,
          ],
          [
            "command",
            job.command.length ? <code key="command">{visible(commandLine(job.command))}</code> : null,
          ],
          ["asks for", job.needs],
          [
            "queue",
            <Link key="queue" to="/queue" search={{ queue: job.queue }}>
              <UserText text={job.queue} />
            </Link>,
          ],
          ["project", <UserText key="project" text={job.project} />],
          ["priority", job.priority],
          ["submitted", job.submitted_at == null ? null : momentInFull(job.submitted_at)],
          ["started", job.started_at == null ? null : momentInFull(job.started_at)],
          ["ended", job.ended_at == null ? null : momentInFull(job.ended_at)],
          ["how", job.reason && <UserText key="how" text={job.reason} />],
          ["begins after", job.begin_at == null ? null : momentInFull(job.begin_at)],
          [
            "after jobs",
            job.waits_for.length ? job.waits_for.map((id) => <JobLink key={id} job={{ id }} />) : null,
          ],
          ["of the array", job.array_id && `${job.array_id}, element ${job.array_index}`],
          [
            "made room",
            job.evictions ? `${counted(job.evictions, "time")}, ${duration(job.lost_s)} lost` : null,
          ],
          ["left sick GPUs", job.site_faults ? counted(job.site_faults, "time") : null],
        ]}
      />
    </Panel>
  );
}

function Parameters({ job }: { job: JobDetail }) {
  const params = Object.entries(job.params);
  if (!params.length) return null;
  return (
    <Panel title="Parameters">
      <Facts facts={params.map(([name, value]) => [name, <UserText key={name} text={value} />] as const)} />
    </Panel>
  );
}
