import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { ApiError, answered, api } from "../../api/client";
import { type JobDetail, queuesQuery } from "../../api/queries";
import { TextField } from "../../components/Field";
import { duration } from "../../format/times";
import { NOT_A_DURATION } from "../../format/quantities";
import { type Changes, changesOf } from "./changes";

/** Asks for a new priority, time limit, name or queue of a job. */
export function ChangeJob({ job, onClose }: { job: JobDetail; onClose: () => void }) {
  const [given, setGiven] = useState<Changes>({
    priority: String(job.priority),
    time: job.time_limit_s == null ? "" : duration(job.time_limit_s),
    name: job.name,
    queue: job.queue,
  });
  const client = useQueryClient();
  const queues = useQuery(queuesQuery);
  const found = changesOf(job, given);
  const change = useMutation({
    mutationFn: () =>
      answered(
        api.PATCH("/api/v1/jobs/{job_id}", {
          params: { path: { job_id: job.id } },
          body: found.body,
        }),
      ),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ["job", job.id] });
      onClose();
    },
  });
  const refused = change.error instanceof ApiError ? change.error : null;
  const errorAt = (field: string) => (refused?.field === field ? refused.message : null);
  const elsewhere =
    change.error && !["priority", "time_limit_s", "name", "queue"].includes(refused?.field ?? "");
  const set = (field: keyof Changes) => (value: string) => setGiven({ ...given, [field]: value });
  const nothing = !Object.keys(found.body).length;
  return (
    <ModalOverlay className="overlay" isOpen isDismissable onOpenChange={(open) => !open && onClose()}>
      <Modal>
        <Dialog className="dialog">
          <Heading slot="title">Change job {job.id}</Heading>
          <form
            className="job-form"
            onSubmit={(event) => {
              event.preventDefault();
              if (!nothing && !found.timeIsWrong && !found.priorityIsWrong) change.mutate();
            }}
          >
            <TextField
              label="Priority"
              hint="A lower number runs first."
              value={given.priority}
              onChange={set("priority")}
              error={found.priorityIsWrong ? "Write a whole number." : errorAt("priority")}
            />
            <TextField
              label="Time limit"
              hint="As in 90m or 2h, counted from its start."
              value={given.time}
              onChange={set("time")}
              error={found.timeIsWrong ? NOT_A_DURATION : errorAt("time_limit_s")}
            />
            <TextField label="Name" value={given.name} onChange={set("name")} error={errorAt("name")} />
            <TextField
              label="Queue"
              value={given.queue}
              onChange={set("queue")}
              list="queues-to-change-to"
              error={errorAt("queue")}
            />
            <datalist id="queues-to-change-to">
              {queues.data
                ?.filter((row) => row.kind === "queue")
                .map((row) => (
                  <option key={row.name} value={row.name} />
                ))}
            </datalist>
            {elsewhere && (
              <p className="banner" data-kind="bad" role="alert">
                {change.error.message}
              </p>
            )}
            <div className="actions">
              <button type="button" className="button" onClick={onClose}>
                Leave it
              </button>
              <button
                type="submit"
                className="button"
                data-kind="main"
                disabled={nothing || change.isPending}
              >
                Change it
              </button>
            </div>
          </form>
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}
