import { Link } from "@tanstack/react-router";
import type { Findings, Task } from "../../api/taskQueries";
import { Copied } from "../../components/Copied";
import { Panel } from "../../components/Panel";
import { TableBox } from "../../components/TableBox";

const EXPORTS = [
  { form: "csv", name: "All experiments, CSV" },
  { form: "yaml", name: "The best, YAML" },
  { form: "submit", name: "corral submit" },
  { form: "ome", name: "OME manifest" },
] as const;

/** The best so far, how much better it is than the default, and how to serve so. */
export function FoundPanel({ task, findings }: { task: Task; findings: Findings }) {
  const running = task.status === "running";
  return (
    <Panel
      title={running ? "Best so far" : "Found"}
      aside={
        <nav className="exports" aria-label="Export">
          {EXPORTS.map(({ form, name }) => (
            <a
              key={form}
              className="button small"
              href={`/api/v1/tasks/${encodeURIComponent(task.id)}/export/${form}`}
              download={`task-${task.id}-${form}`}
            >
              {name}
            </a>
          ))}
        </nav>
      }
    >
      <p className="found-gain">
        {findings.best_id && (
          <Link to="/experiments/$experiment" params={{ experiment: findings.best_id }}>
            The best experiment
          </Link>
        )}
        : {findings.gain}.
      </p>
      {findings.figures.length > 0 && (
        <TableBox label="The best beside the default">
          <table>
            <thead>
              <tr>
                <th>Measured</th>
                <th className="number">Best</th>
                <th className="number">Default</th>
              </tr>
            </thead>
            <tbody>
              {findings.figures.map((figure) => (
                <tr key={figure.label}>
                  <td>{figure.label}</td>
                  <td className="number">{figure.best}</td>
                  <td className="number">{figure.default === "-" ? "–" : figure.default}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </TableBox>
      )}
      {findings.command && <Copied title="Command to serve it" text={findings.command} />}
    </Panel>
  );
}
