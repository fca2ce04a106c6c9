import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { ApiError, answered, api, inOwnLanguage, type Schemas } from "../api/client";
import { devicesQuery, jobQuery, queuesQuery, resourceNamesQuery, sessionQuery } from "../api/queries";
import { Choice } from "../components/Choice";
import { Field, TextField } from "../components/Field";
import { Panel } from "../components/Panel";
import { Empty, Shown } from "../components/states";
import { shortModel } from "../format/units";
import { EMPTY, fieldOf, type FieldName, formLike, type JobForm, submissionOf } from "../jobs/form";
import { Forecast, useDryRun } from "./submit/Forecast";
import { SameCommand } from "./submit/SameCommand";
import "../styles/jobs.css";

/** A form for a new job, empty or as another job was submitted. */
export function SubmitPage() {
  const { like } = useSearch({ from: "/submit" });
  const session = useQuery(sessionQuery);
  return (
    <>
      <div className="page-head">
        <h1>Submit a job</h1>
      </div>
      {session.data?.scope === "read" ? (
        <Empty title="Your token may only read">Sign in with one that may submit.</Empty>
      ) : like ? (
        <Like id={like} />
      ) : (
        <Form start={EMPTY} />
      )}
    </>
  );
}

function Like({ id }: { id: string }) {
  const job = useQuery(jobQuery(id));
  return (
    <Shown query={job} what={`job ${id}`}>
      {(row) => (
        <>
          <p className="quiet">
            As job {id} was submitted. Its environment, which is secret, and options without a field here are
            left out.
          </p>
          <Form key={id} start={formLike(row)} />
        </>
      )}
    </Shown>
  );
}

function Form({ start }: { start: JobForm }) {
  const [form, setForm] = useState(start);
  const navigate = useNavigate();
  const client = useQueryClient();
  const { submission, errors: unread } = submissionOf(form);
  const dryRun = useDryRun(submission);
  const submit = useMutation({
    mutationFn: (body: Schemas["Submission"]) => answered(api.POST("/api/v1/jobs", { body })),
    onSuccess: (made, body) => {
      void client.invalidateQueries({ queryKey: ["jobs"] });
      const first = body.array?.indices[0] ?? (body.sweep ? 0 : null);
      void navigate({ to: "/jobs/$id", params: { id: first === null ? made.id : `${made.id}_${first}` } });
    },
  });
  const told = submit.error ?? dryRun.error;
  const refused = told instanceof ApiError ? told : null;
  const at = refused && fieldOf(refused.field, form);
  const errorOf = (field: FieldName) => unread[field] ?? (at === field ? refused?.message : null);
  const set = (field: FieldName) => (value: string) => {
    submit.reset();
    setForm({ ...form, [field]: value });
  };
  const text = (
    field: FieldName,
    label: string,
    more: { hint?: ReactNode; placeholder?: string; list?: string } = {},
  ) => <TextField label={label} value={form[field]} onChange={set(field)} error={errorOf(field)} {...more} />;
  const lines = (field: FieldName, label: string, rows: number, hint: ReactNode) => (
    <Field label={label} hint={hint} error={errorOf(field)} className="whole">
      {(input) => (
        <textarea
          {...input}
          rows={rows}
          value={form[field]}
          spellCheck={false}
          onChange={(event) => set(field)(event.target.value)}
        />
      )}
    </Field>
  );
  return (
    <form
      className="submit"
      onSubmit={(event) => {
        event.preventDefault();
        if (submission && !submit.isPending) submit.mutate(submission);
      }}
    >
      <Panel
        title="Program"
        aside={
          <Choice
            label="Command or script"
            options={["command", "script"] as const}
            value={form.runs}
            onChange={(runs) => setForm({ ...form, runs })}
          />
        }
      >
        <div className="job-form">
          {form.runs === "command"
            ? text("command", "Command", {
                placeholder: "python train.py",
                hint: "Words as in a shell; for pipes and variables: sh -c '…'.",
              })
            : lines("script", "Script", 8, "Begins with #!; lines #CORRAL and #SBATCH are ignored here.")}
          <div className="submit-fields">
            {text("name", "Name")}
            {text("workdir", "Directory", { placeholder: "/", hint: "On the node." })}
          </div>
          {lines("env", "Environment", 2, "One NAME=VALUE a line. Variables of your shell are not copied.")}
        </div>
      </Panel>
      <Panel title="Resources">
        <div className="job-form submit-fields">
          {text("gpus", "GPUs", { hint: "2, 0.5 for half of one, 0 for none." })}
          {text("memory", "Memory on a shared GPU", { placeholder: "20G", hint: "For a part of a GPU." })}
          {text("model", "GPU model", { placeholder: "any", list: "models" })}
          {text("resources", "Resource names", {
            placeholder: "cuda.shares=0.5",
            hint: "Another system's, in place of GPUs and memory.",
            list: "resources",
          })}
          {text("time", "Time limit", { placeholder: "2h", hint: "With one it may start sooner." })}
          {text("queue", "Queue", { placeholder: "default", list: "queues" })}
          {text("project", "Project", { placeholder: "default", list: "projects" })}
          {text("priority", "Priority", { hint: "A lower number runs first." })}
        </div>
        <Known />
      </Panel>
      <Panel title="Repetition">
        <div className="job-form">
          {text("array", "Array", {
            placeholder: "0-9%2",
            hint: "A job for each index; %2 is two at a time.",
          })}
          {lines(
            "params",
            "Parameters",
            2,
            "lr=0.1,0.01 or seed=0..4, a line each: a job for each combination, with {lr} in the command.",
          )}
        </div>
      </Panel>
      <Panel title="What would happen">
        <Forecast query={dryRun} asked={submission !== null} elsewhere={told && !at ? told.message : null} />
        <div className="fields" style={{ marginTop: 12 }}>
          <button
            type="submit"
            className="button"
            data-kind="main"
            disabled={!submission || submit.isPending}
          >
            Submit
          </button>
        </div>
        <SameCommand form={form} />
      </Panel>
    </form>
  );
}

/** What the server has, for who does not want to type it. */
function Known() {
  const devices = useQuery(devicesQuery);
  const queues = useQuery(queuesQuery);
  const resources = useQuery(resourceNamesQuery);
  const models = new Set(devices.data?.filter((row) => !row.parent).map((row) => shortModel(row.name)));
  const named = (kind: string) =>
    queues.data?.filter((row) => row.kind === kind).map((row) => <option key={row.name} value={row.name} />);
  return (
    <>
      <datalist id="models">
        {[...models].map((model) => (
          <option key={model} value={model} />
        ))}
      </datalist>
      <datalist id="resources">
        {resources.data?.map((row) => (
          <option
            key={row.name}
            value={`${row.name}=${row.default ?? ""}`}
            label={inOwnLanguage(row.descriptions) ?? row.group}
          />
        ))}
      </datalist>
      <datalist id="queues">{named("queue")}</datalist>
      <datalist id="projects">{named("project")}</datalist>
    </>
  );
}
