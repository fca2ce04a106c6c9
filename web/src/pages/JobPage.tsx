import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useState } from "react";
import { answered, api } from "../api/client";
import { type JobDetail, jobQuery, sessionQuery, whyQuery } from "../api/queries";
import { Confirm } from "../components/Confirm";
import { Facts, Figures, Panel } from "../components/Panel";
import { Empty, Shown } from "../components/states";
import { Tag } from "../components/Tag";
import { phaseTone } from "../components/tones";
import { UserText } from "../components/UserText";
import { duration, moment, momentInFull } from "../format/times";
import { memory, share, shortModel } from "../format/units";
import { useNow } from "../live/useNow";
import { LogView } from "../log/LogView";

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
            <Actions job={row} />
          </div>
          <Numbers job={row} />
          <Why job={row} />
          <div className="columns">
            <Devices job={row} />
            <Attempts job={row} />
            <About job={row} />
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
        { name: "Phase", value: <Tag word={job.held ? "on hold" : job.phase} tone={phaseTone(job.phase)} /> },
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

function Why({ job }: { job: JobDetail }) {
  const why = useQuery(whyQuery(job.id));
  if (!why.data) return null;
  const told = why.data;
  return (
    <Panel title={job.phase === "PENDING" ? "Why it waits" : "Why"}>
      <p style={{ margin: "0 0 8px", overflowWrap: "anywhere" }}>
        <bdi>{told.reason}</bdi>
      </p>
      <Facts
        facts={[
          ["what to do", told.diagnosis],
          ["place in the queue", told.position],
          [
            told.expected_start_is === "promise" ? "starts at the latest" : "expected start",
            told.expected_start == null ? null : momentInFull(told.expected_start),
          ],
          ["starts now with", told.starts_now_with ? <code key="with">{told.starts_now_with}</code> : null],
          [
            "waited",
            told.waited.length
              ? told.waited.map((part) => `${part.reason} ${duration(part.seconds)}`).join(", ")
              : null,
          ],
          ["has", told.holds],
        ]}
      />
    </Panel>
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
                  <UserText text={`${device.node}:${device.index ?? "?"}`} />
                </td>
                <td>{device.name ? shortModel(device.name, device.mig_profile) : "–"}</td>
                <td className="number">{share(device.share_milli)}</td>
                <td className="number">{device.memory_mib == null ? "all" : memory(device.memory_mib)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <Empty title="It has none" />
      )}
    </Panel>
  );
}

function Attempts({ job }: { job: JobDetail }) {
  return (
    <Panel title="Attempts">
      {job.history.length ? (
        <table>
          <thead>
            <tr>
              <th className="number">#</th>
              <th>Where</th>
              <th>Started</th>
              <th className="number">Ran</th>
              <th>Ended</th>
            </tr>
          </thead>
          <tbody>
            {job.history.map((attempt) => (
              <tr key={`${attempt.attempt} ${attempt.allocated_at}`}>
                <td className="number">{attempt.attempt}</td>
                <td>
                  <UserText text={attempt.nodes.join(", ") || attempt.node} />
                </td>
                <td>{moment(attempt.started_at)}</td>
                <td className="number">
                  {attempt.started_at == null || attempt.ended_at == null
                    ? "–"
                    : duration(attempt.ended_at - attempt.started_at)}
                </td>
                <td title={attempt.reason ?? ""}>{attempt.ended_as?.replace("_", " ") ?? "runs"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <Empty title="It has not run yet" />
      )}
    </Panel>
  );
}

function About({ job }: { job: JobDetail }) {
  return (
    <Panel title="About">
      <Facts
        facts={[
          ["who", <UserText key="user" text={job.user} />],
          ["command", job.command.length ? <code key="command">{job.command.join(" ")}</code> : null],
          ["asks for", job.needs],
          ["queue", <UserText key="queue" text={job.queue} />],
          ["project", <UserText key="project" text={job.project} />],
          ["priority", job.priority],
          ["submitted", job.submitted_at == null ? null : momentInFull(job.submitted_at)],
          ["started", job.started_at == null ? null : momentInFull(job.started_at)],
          ["ended", job.ended_at == null ? null : momentInFull(job.ended_at)],
          ["how", job.reason],
          ...Object.entries(job.params).map(([name, value]) => [name, value] as const),
        ]}
      />
    </Panel>
  );
}

const LIVE_PHASES = ["PENDING", "STARTING", "RUNNING", "STOPPING"];

/** What the user may do with this job now. */
function Actions({ job }: { job: JobDetail }) {
  const session = useQuery(sessionQuery);
  const client = useQueryClient();
  const [asked, setAsked] = useState<"cancel" | null>(null);
  const act = useMutation({
    mutationFn: (verb: "cancel" | "hold" | "release" | "requeue") =>
      answered(api.POST(`/api/v1/jobs/{job_id}/${verb}`, { params: { path: { job_id: job.id } } })),
    onSettled: () => client.invalidateQueries({ queryKey: ["job", job.id] }),
  });
  const may =
    session.data && session.data.scope !== "read" && (session.data.admin || session.data.user === job.user);
  if (!may) return null;
  const live = LIVE_PHASES.includes(job.phase);
  return (
    <div className="fields">
      {act.error && (
        <span className="banner" data-kind="bad" role="alert">
          {act.error.message}
        </span>
      )}
      {job.phase === "PENDING" && (
        <button type="button" className="button" onClick={() => act.mutate(job.held ? "release" : "hold")}>
          {job.held ? "Release" : "Hold"}
        </button>
      )}
      {(job.phase === "FAILED" || job.phase === "LOST" || job.phase === "RUNNING") && (
        <button type="button" className="button" onClick={() => act.mutate("requeue")}>
          Run again
        </button>
      )}
      {live && (
        <button type="button" className="button" data-kind="danger" onClick={() => setAsked("cancel")}>
          Cancel
        </button>
      )}
      {asked && (
        <Confirm
          title={`Cancel job ${job.id}?`}
          action="Cancel the job"
          onClose={() => setAsked(null)}
          onConfirm={() => {
            setAsked(null);
            act.mutate("cancel");
          }}
        >
          {job.phase === "PENDING"
            ? "It leaves the queue."
            : "What it runs is stopped, and it does not run again."}
        </Confirm>
      )}
    </div>
  );
}
