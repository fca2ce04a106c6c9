import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { mayChangeTask } from "../../access/rights";
import { answered, api } from "../../api/client";
import { sessionQuery } from "../../api/queries";
import type { Task } from "../../api/taskQueries";
import { Confirm } from "../../components/Confirm";

const QUESTIONS = {
  cancel: {
    name: "Cancel",
    says: "Running experiments are stopped. The task can be started again, and continues.",
  },
  restart: {
    name: "Restart",
    says: "Its experiments and results are deleted, and it starts again.",
  },
  clear: { name: "Clear", says: "Its experiments and results are deleted. The task stays." },
  delete: { name: "Delete", says: "The task is deleted, with its experiments and results." },
} as const;
type Asked = keyof typeof QUESTIONS;
type Verb = Asked | "start";

/** What the user may do with this task now. */
export function TaskActions({ task }: { task: Task }) {
  const session = useQuery(sessionQuery);
  const client = useQueryClient();
  const navigate = useNavigate();
  const [asked, setAsked] = useState<Asked | null>(null);
  const act = useMutation({
    mutationFn: (verb: Verb) => {
      const params = { path: { task_id: task.id } };
      if (verb === "delete") return answered(api.DELETE("/api/v1/tasks/{task_id}", { params }));
      return answered(api.POST(`/api/v1/tasks/{task_id}/${verb}`, { params }));
    },
    // A read that comes after the task is gone would be told that there is none.
    onMutate: async (verb: Verb) => {
      if (verb !== "delete") return;
      for (const key of ["task", "experiments", "findings"])
        await client.cancelQueries({ queryKey: [key, task.id] });
    },
    onSettled: (_, error, verb) => {
      void client.invalidateQueries({ queryKey: ["tasks"] });
      if (verb === "delete" && !error) return navigate({ to: "/tasks" });
      for (const key of ["task", "experiments", "findings"])
        void client.invalidateQueries({ queryKey: [key, task.id] });
      return undefined;
    },
  });
  if (!mayChangeTask(session.data, task)) return null;
  const running = task.status === "running";
  const offered: Record<Verb, boolean> = {
    start: !running && task.status !== "completed",
    cancel: running || task.status === "pending",
    restart: !running && task.total_experiments > 0,
    clear: !running && task.total_experiments > 0,
    delete: !running,
  };
  return (
    <div className="fields">
      {act.error && (
        <span className="banner" data-kind="bad" role="alert">
          {act.error.message}
        </span>
      )}
      {offered.start && (
        <button
          type="button"
          className="button"
          data-kind="main"
          disabled={act.isPending}
          onClick={() => act.mutate("start")}
        >
          {task.status === "pending" ? "Start" : "Continue"}
        </button>
      )}
      {(Object.keys(QUESTIONS) as Asked[])
        .filter((verb) => offered[verb])
        .map((verb) => (
          <button
            key={verb}
            type="button"
            className="button"
            data-kind={verb === "cancel" || verb === "delete" ? "danger" : undefined}
            disabled={act.isPending}
            onClick={() => setAsked(verb)}
          >
            {QUESTIONS[verb].name}
          </button>
        ))}
      {asked && offered[asked] && (
        <Confirm
          title={`${QUESTIONS[asked].name} task ${task.id}?`}
          action={`${QUESTIONS[asked].name} the task`}
          onClose={() => setAsked(null)}
          onConfirm={() => {
            setAsked(null);
            act.mutate(asked);
          }}
        >
          {QUESTIONS[asked].says}
        </Confirm>
      )}
    </div>
  );
}
