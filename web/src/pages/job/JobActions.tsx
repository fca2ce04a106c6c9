import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { mayChangeJob } from "../../access/rights";
import { answered, api } from "../../api/client";
import { type JobDetail, sessionQuery } from "../../api/queries";
import { Confirm } from "../../components/Confirm";
import { ChangeJob } from "./ChangeJob";

const LIVE = ["PENDING", "STARTING", "RUNNING", "STOPPING"];
const CAN_RUN_AGAIN = ["FAILED", "LOST", "RUNNING"];

const QUESTIONS = {
  cancel: {
    title: "Cancel",
    action: "Cancel the job",
    waits: "It leaves the queue.",
    runs: "Its processes are stopped, and it does not run again.",
  },
  requeue: {
    title: "Run again",
    action: "Run it again",
    waits: "It goes back to its queue.",
    runs: "Its processes are stopped, and it starts again.",
  },
} as const;

/** What the user may do with this job now. */
export function JobActions({ job }: { job: JobDetail }) {
  const session = useQuery(sessionQuery);
  const client = useQueryClient();
  const [asked, setAsked] = useState<"cancel" | "requeue" | "change" | null>(null);
  const act = useMutation({
    mutationFn: (verb: "cancel" | "hold" | "release" | "requeue") =>
      answered(api.POST(`/api/v1/jobs/{job_id}/${verb}`, { params: { path: { job_id: job.id } } })),
    onSettled: () => client.invalidateQueries({ queryKey: ["job", job.id] }),
  });
  const live = LIVE.includes(job.phase);
  const again = CAN_RUN_AGAIN.includes(job.phase);
  const may = mayChangeJob(session.data, job);
  const maySubmit = session.data && session.data.scope !== "read";
  return (
    <div className="fields">
      {act.error && (
        <span className="banner" data-kind="bad" role="alert">
          {act.error.message}
        </span>
      )}
      {maySubmit && job.kind === "run" && (
        <Link to="/submit" search={{ like: job.id }} className="button">
          Submit another
        </Link>
      )}
      {may && live && job.phase !== "STOPPING" && (
        <button type="button" className="button" onClick={() => setAsked("change")}>
          Change
        </button>
      )}
      {may && job.phase === "PENDING" && (
        <button type="button" className="button" onClick={() => act.mutate(job.held ? "release" : "hold")}>
          {job.held ? "Release" : "Hold"}
        </button>
      )}
      {may && again && (
        <button type="button" className="button" onClick={() => setAsked("requeue")}>
          Run again
        </button>
      )}
      {may && live && (
        <button type="button" className="button" data-kind="danger" onClick={() => setAsked("cancel")}>
          Cancel
        </button>
      )}
      {may && live && asked === "change" && <ChangeJob job={job} onClose={() => setAsked(null)} />}
      {/* What has ended meanwhile, from another page, is not asked about any more. */}
      {may && ((asked === "cancel" && live) || (asked === "requeue" && again)) && (
        <Confirm
          title={`${QUESTIONS[asked].title} job ${job.id}?`}
          action={QUESTIONS[asked].action}
          onClose={() => setAsked(null)}
          onConfirm={() => {
            setAsked(null);
            act.mutate(asked);
          }}
        >
          {live && job.phase !== "PENDING" ? QUESTIONS[asked].runs : QUESTIONS[asked].waits}
        </Confirm>
      )}
    </div>
  );
}
