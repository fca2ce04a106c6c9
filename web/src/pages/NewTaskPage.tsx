import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { ApiError, answered, api } from "../api/client";
import { sessionQuery } from "../api/queries";
import { taskQuery, type TuningSpec } from "../api/taskQueries";
import { Choice } from "../components/Choice";
import { Copied } from "../components/Copied";
import { Field } from "../components/Field";
import { Panel } from "../components/Panel";
import { Empty, Shown } from "../components/states";
import { EMPTY, fieldOf, readTask, specOf, type TaskForm } from "../tuning/form";
import { EstimatePanel, useEstimate } from "./task/Estimate";
import { TaskFields } from "./task/TaskFields";
import "../styles/jobs.css";
import "../styles/tuning.css";

/** A form for a new task, empty or as another one was written down. */
export function NewTaskPage() {
  const { like } = useSearch({ from: "/tasks/new" });
  const session = useQuery(sessionQuery);
  return (
    <>
      <div className="page-head">
        <h1>New task</h1>
      </div>
      {session.data?.scope === "read" ? (
        <Empty title="Your token may only read">Sign in with one that may submit.</Empty>
      ) : like ? (
        <Like id={like} />
      ) : (
        <Form text={null} />
      )}
    </>
  );
}

function Like({ id }: { id: string }) {
  const task = useQuery(taskQuery(id));
  return (
    <Shown query={task} what={`task ${id}`}>
      {({ config }) => <Form key={id} text={JSON.stringify(config, null, 2)} />}
    </Shown>
  );
}

const WAYS = ["form", "JSON"] as const;

/** `text` is a task to begin with. */
function Form({ text }: { text: string | null }) {
  const [form, setForm] = useState(EMPTY);
  const [typed, setTyped] = useState(text);
  const made = specOf(form);
  const read = readTask(typed ?? "");
  const spec = typed === null ? made.spec : read.spec;
  const estimate = useEstimate(spec);
  const { create, act } = useCreation();
  const told = create.error ?? estimate.error;
  const refused = told instanceof ApiError ? told : null;
  const at = typed === null ? fieldOf(refused?.field ?? null) : null;
  const change = (next: Partial<TaskForm>) => {
    create.reset();
    setForm({ ...form, ...next });
  };
  return (
    <form
      className="submit"
      onSubmit={(event) => {
        event.preventDefault();
        if (spec) act(spec, true);
      }}
    >
      <div className="new-task">
        <Choice
          label="Form or JSON"
          options={WAYS}
          value={typed === null ? "form" : "JSON"}
          onChange={(way) => setTyped(way === "form" ? null : JSON.stringify(spec ?? {}, null, 2))}
        />
        {typed === null ? (
          <TaskFields
            form={form}
            change={change}
            errorOf={(field) => made.errors[field] ?? (at === field ? (refused?.message ?? null) : null)}
          />
        ) : (
          <Panel title="The task">
            <div className="job-form">
              <Field label="The file of a task" error={read.error} className="whole">
                {(input) => (
                  <textarea
                    {...input}
                    rows={26}
                    value={typed}
                    spellCheck={false}
                    onChange={(event) => setTyped(event.target.value)}
                  />
                )}
              </Field>
            </div>
          </Panel>
        )}
      </div>
      <Panel title="What it takes">
        <EstimatePanel query={estimate} asked={spec !== null} elsewhere={told && !at ? told.message : null} />
        <div className="fields" style={{ marginTop: 12 }}>
          <button type="submit" className="button" data-kind="main" disabled={!spec || create.isPending}>
            Create and start
          </button>
          <button
            type="button"
            className="button"
            disabled={!spec || create.isPending}
            onClick={() => spec && act(spec, false)}
          >
            Create
          </button>
        </div>
        {spec && typed === null && (
          <Copied title="The same as a file for corral tune" text={JSON.stringify(spec, null, 2)} />
        )}
      </Panel>
    </form>
  );
}

/** Writes a task down, has it begin where that is asked for, and goes to its page. */
function useCreation() {
  const navigate = useNavigate();
  const client = useQueryClient();
  const create = useMutation({
    mutationFn: async ({ spec, start }: { spec: TuningSpec; start: boolean }) => {
      const made = await answered(api.POST("/api/v1/tasks", { body: spec }));
      if (start)
        await answered(api.POST("/api/v1/tasks/{task_id}/start", { params: { path: { task_id: made.id } } }));
      return made;
    },
    onSuccess: (made) => {
      void client.invalidateQueries({ queryKey: ["tasks"] });
      void navigate({ to: "/tasks/$task", params: { task: made.id } });
    },
  });
  const act = (spec: TuningSpec, start: boolean) => {
    if (!create.isPending) create.mutate({ spec, start });
  };
  return { create, act };
}
