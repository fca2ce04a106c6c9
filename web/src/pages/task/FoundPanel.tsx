import { Link } from "@tanstack/react-router";
import type { BestOnModel, Findings, Task } from "../../api/taskQueries";
import { Copied } from "../../components/Copied";
import { Panel } from "../../components/Panel";
import { TableBox } from "../../components/TableBox";
import { UserText } from "../../components/UserText";
import { bestsOf } from "../../tuning/bests";

const EXPORTS = [
  { form: "csv", name: "All experiments, CSV" },
  { form: "yaml", name: "The best, YAML" },
  { form: "submit", name: "corral submit" },
  { form: "ome", name: "OME manifest" },
] as const;

/** The best so far, how much better it is than the default, and how to serve so. */
export function FoundPanel({ task, findings }: { task: Task; findings: Findings }) {
  const running = task.status === "running";
  const found = bestsOf(findings);
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
      {found.length > 1 && (
        <p>No winner: experiments ran on several models of GPU, whose figures do not compare.</p>
      )}
      {found.map((best) => (
        <Best key={best.best_id} best={best} apart={found.length > 1} />
      ))}
    </Panel>
  );
}

/** The best combination on one model of GPU, which is named if there are several. */
function Best({ best, apart }: { best: BestOnModel; apart: boolean }) {
  return (
    <>
      <p className="found-gain">
        <Link to="/experiments/$experiment" params={{ experiment: best.best_id }}>
          The best experiment
        </Link>
        {apart && (
          <>
            {" on "}
            <UserText text={best.gpu_model ?? "GPUs of unknown model"} />
          </>
        )}
        : {best.gain}.
      </p>
      <p className="quiet">{best.sureness}.</p>
      {best.figures.length > 0 && (
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
              {best.figures.map((figure) => (
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
      <Copied title="Command to serve it" text={best.command} />
    </>
  );
}
