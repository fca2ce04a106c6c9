/** The command line that submits what a form does. */
import { quoted } from "./commandLine";
import type { FieldName, JobForm } from "./form";

const FLAGS: readonly [FieldName, string][] = [
  ["gpus", "--gpus"],
  ["memory", "--gpu-mem"],
  ["model", "--gpu-model"],
  ["resources", "--resource"],
  ["time", "--time"],
  ["name", "--name"],
  ["queue", "--queue"],
  ["project", "--project"],
  ["priority", "--priority"],
  ["workdir", "--workdir"],
  ["array", "--array"],
];
const OF_LINES: readonly [FieldName, string][] = [
  ["env", "--env"],
  ["params", "--param"],
];
const END = "END_OF_SCRIPT";

/** `corral submit` with the flags of the form; a script follows as standard input. */
export function submitLine(form: JobForm): string {
  const flags = FLAGS.flatMap(([field, flag]) => {
    if (field === "gpus" && form.resources.trim()) return [];
    const value = form[field].trim();
    return value ? [`${flag} ${quoted(value)}`] : [];
  });
  for (const [field, flag] of OF_LINES) {
    for (const line of form[field].split("\n")) if (line.trim()) flags.push(`${flag} ${quoted(line.trim())}`);
  }
  const start = ["corral submit", ...flags].join(" ");
  if (form.runs === "command") return `${start} -- ${form.command.trim() || "COMMAND"}`;
  return `${start} - <<'${END}'\n${form.script.trimEnd()}\n${END}`;
}
