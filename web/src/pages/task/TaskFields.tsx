import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useId } from "react";
import { presetsQuery } from "../../api/taskQueries";
import { Field, TextField } from "../../components/Field";
import { Panel } from "../../components/Panel";
import {
  type FieldName,
  MODES,
  OBJECTIVES,
  STARTS,
  STRATEGIES,
  type TaskForm,
  withPreset,
} from "../../tuning/form";

type More = { hint?: ReactNode; placeholder?: string; list?: string };

interface Filled {
  form: TaskForm;
  change: (next: Partial<TaskForm>) => void;
  errorOf: (field: FieldName) => string | null;
}

/** The fields of a new task. */
export function TaskFields({ form, change, errorOf }: Filled) {
  const runtimes = useId();
  const text = (field: FieldName, label: string, more: More = {}) => (
    <TextField
      label={label}
      value={form[field]}
      onChange={(value) => change({ [field]: value })}
      error={errorOf(field)}
      {...more}
    />
  );
  const lines = (field: FieldName, label: string, rows: number, hint: ReactNode) => (
    <Field label={label} hint={hint} error={errorOf(field)} className="whole">
      {(input) => (
        <textarea
          {...input}
          rows={rows}
          value={form[field]}
          spellCheck={false}
          onChange={(event) => change({ [field]: event.target.value })}
        />
      )}
    </Field>
  );
  const oneOf = (field: FieldName, label: string, options: Readonly<Record<string, string>>) => (
    <Field label={label} error={errorOf(field)}>
      {(input) => (
        <select {...input} value={form[field]} onChange={(event) => change({ [field]: event.target.value })}>
          {Object.entries(options).map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
  return (
    <>
      <Panel title="Model and server">
        <div className="job-form submit-fields">
          {text("model", "Model", {
            placeholder: "/models/llama-3-8b",
            hint: "A directory, or a name at the hub.",
          })}
          {text("runtime", "Inference server", { list: runtimes, hint: "vllm, sglang" })}
          {oneOf("mode", "Deployed as", Object.fromEntries(MODES.map((mode) => [mode, mode])))}
          {text("name", "Name", { hint: "Default: the name of the model." })}
        </div>
        <datalist id={runtimes}>
          <option value="vllm" />
          <option value="sglang" />
        </datalist>
      </Panel>
      <Panel title="Parameters to try">
        <div className="job-form">
          <Field label="Begin with" hint="Replaces the parameters below.">
            {(input) => (
              <select
                {...input}
                value=""
                onChange={(event) => {
                  const { runtime, parameters } = STARTS[Number(event.target.value)] ?? form;
                  change({ runtime, parameters });
                }}
              >
                <option value="">choose …</option>
                {STARTS.map((start, at) => (
                  <option key={start.name} value={at}>
                    {start.name}
                  </option>
                ))}
              </select>
            )}
          </Field>
          {lines(
            "parameters",
            "Parameters",
            5,
            "A line each: tp-size=1,2,4 — or a range, 1..256 or 0.8..0.95, with “log” behind it for powers.",
          )}
          <Presets group="parallel" legend="Presets of parallelism" {...{ form, change, errorOf }} />
          <Presets group="quant" legend="Presets of precision" {...{ form, change, errorOf }} />
          <div className="submit-fields">
            {oneOf("objective", "Goal", OBJECTIVES)}
            {oneOf("strategy", "How it searches", STRATEGIES)}
            {text("iterations", "Experiments at most", { placeholder: "100" })}
            {text("parallel", "At a time", { hint: "Where GPUs allow." })}
          </div>
        </div>
      </Panel>
      <Panel title="Load">
        <div className="job-form">
          {lines("scenarios", "Traffic", 2, "D(1000,200) is 1000 tokens in and 200 out; a line each.")}
          <div className="submit-fields">
            {text("concurrency", "Requests at a time", { hint: "Levels of load, such as 1, 8, 32." })}
            {text("minutes", "Minutes a level", { hint: "At most." })}
            {text("requests", "Requests a level", { hint: "At most." })}
          </div>
          <div className="submit-fields">
            {text("ttft", "Limit: first token, s", { placeholder: "none" })}
            {text("tpot", "Limit: output token, s", { placeholder: "none" })}
            {text("p99", "Limit: latency p99, s", { placeholder: "none" })}
          </div>
        </div>
      </Panel>
      <Panel title="Where it runs">
        <div className="job-form">
          <div className="submit-fields">
            {text("gpuModel", "GPU model", {
              placeholder: "that of the first experiment",
              hint: "Of several, such as A100, H100, any will do, and there is no winner across them.",
            })}
            {text("minMemory", "GPU memory at least", { placeholder: "as estimated", hint: "Such as 40G." })}
            {text("node", "Nodes", { placeholder: "any", hint: "Such as gpu-[01-03]." })}
            {text("label", "Node labels", { placeholder: "any", hint: "Such as zone=a." })}
            {text("prefer", "Preferred node labels", { placeholder: "none", hint: "Such as zone=b." })}
            {text("device", "GPUs", { placeholder: "any", hint: "UUIDs of GPUs." })}
            {oneOf("exclusive", "Whole nodes", { "": "no", yes: "yes: no neighbours on the node" })}
          </div>
          <div className="submit-fields">
            {text("queue", "Queue", { placeholder: "default" })}
            {text("project", "Project", { placeholder: "default" })}
            {text("timeout", "Time to deploy", { hint: "An experiment that takes longer has failed." })}
            {text("wait", "Wait for GPUs", {
              placeholder: "its turn",
              hint: "An experiment that waits longer has failed.",
            })}
          </div>
          {lines(
            "env",
            "Environment",
            2,
            "One NAME=VALUE a line, for the inference server: PATH, HF_HOME … Variables of your shell are not copied.",
          )}
        </div>
      </Panel>
    </>
  );
}

/** Combinations that the server knows by a name, of which each that is chosen is tried. */
function Presets({
  group,
  legend,
  form,
  change,
  errorOf,
}: Filled & { group: "parallel" | "quant"; legend: string }) {
  const presets = useQuery(presetsQuery);
  const field = `${group}Presets` as const;
  const chosen = form[field].split(",");
  const error = errorOf(field);
  const known = presets.data?.filter((preset) => preset.category.startsWith(group)) ?? [];
  if (!known.length) return null;
  return (
    <details open={form[field] !== "" || undefined}>
      <summary>{legend}</summary>
      <fieldset className="presets" aria-label={legend}>
        {known.map((preset) => (
          <label key={preset.name}>
            <input
              type="checkbox"
              checked={chosen.includes(preset.name)}
              onChange={(event) =>
                change({ [field]: withPreset(form[field], preset.name, event.target.checked) })
              }
            />{" "}
            {preset.name} <small className="quiet">{preset.description}</small>
          </label>
        ))}
      </fieldset>
      {error && (
        <span className="field-error" role="alert">
          {error}
        </span>
      )}
    </details>
  );
}
