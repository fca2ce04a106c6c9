import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { type ExperimentDetail, experimentQuery, type Task, taskQuery } from "../api/taskQueries";
import { Panel } from "../components/Panel";
import { Empty, Shown } from "../components/states";
import { TableBox } from "../components/TableBox";
import { Tag } from "../components/Tag";
import { taskTone } from "../components/tones";
import { UserText } from "../components/UserText";
import { comparedFigures, comparedParameters } from "../tuning/compared";
import { objectiveOf, scoreText } from "../tuning/figures";
import { levelsOf } from "../tuning/levels";
import { LevelsTable } from "./task/LevelsTable";
import "../styles/tuning.css";

/** Two experiments of a task, side by side. */
export function CompareExperimentsPage() {
  const { task: id } = useParams({ from: "/tasks/$task/compare" });
  const { one, other } = useSearch({ from: "/tasks/$task/compare" });
  const task = useQuery(taskQuery(id));
  const first = useQuery({ ...experimentQuery(one ?? ""), enabled: one !== undefined });
  const second = useQuery({ ...experimentQuery(other ?? ""), enabled: other !== undefined });
  return (
    <Shown query={task} what={`task ${id}`}>
      {({ task: row }) => (
        <>
          <div className="page-head">
            <h1>
              Two experiments{" "}
              <span className="quiet">
                of{" "}
                <Link to="/tasks/$task" params={{ task: id }}>
                  task {id} <UserText text={row.task_name} />
                </Link>
              </span>
            </h1>
          </div>
          {one === undefined || other === undefined ? (
            <Empty title="Nothing is chosen">Choose two experiments on the page of the task.</Empty>
          ) : (
            <Shown query={first} what={`experiment ${one}`}>
              {(left) => (
                <Shown query={second} what={`experiment ${other}`}>
                  {(right) => <SideBySide task={row} left={left} right={right} />}
                </Shown>
              )}
            </Shown>
          )}
        </>
      )}
    </Shown>
  );
}

function SideBySide({ task, left, right }: { task: Task; left: ExperimentDetail; right: ExperimentDetail }) {
  const objective = objectiveOf(task);
  const both = [left, right];
  return (
    <>
      <Panel title="Side by side">
        <TableBox label="Both experiments">
          <table className="compared">
            <thead>
              <tr>
                <th>What</th>
                {both.map((row) => (
                  <th key={row.id} className="number">
                    <Link to="/experiments/$experiment" params={{ experiment: row.id }}>
                      Experiment {row.experiment_id}
                    </Link>
                  </th>
                ))}
                <th className="number">Difference</th>
              </tr>
            </thead>
            <tbody>
              <tr>
                <th scope="row">Status</th>
                {both.map((row) => (
                  <td key={row.id} className="number">
                    <Tag word={row.status} tone={taskTone(row.status)} />
                  </td>
                ))}
                <td />
              </tr>
              {comparedParameters(left.parameters, right.parameters).map((line) => (
                <tr key={line.name} data-differs={line.differs || undefined}>
                  <th scope="row">{line.name}</th>
                  <td className="number">{line.left}</td>
                  <td className="number">{line.right}</td>
                  <td className="number">{line.differs ? "differs" : ""}</td>
                </tr>
              ))}
              <tr>
                <th scope="row">Score</th>
                {both.map((row) => (
                  <td key={row.id} className="number">
                    {scoreText(row.objective_score, objective)}
                  </td>
                ))}
                <td />
              </tr>
              {comparedFigures(left.metrics, right.metrics).map((line) => (
                <tr key={line.name}>
                  <th scope="row">{line.name}</th>
                  <td className="number">{line.left}</td>
                  <td className="number">{line.right}</td>
                  <td className="number difference" data-tone={line.tone}>
                    {line.difference}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </TableBox>
      </Panel>
      {both.map((row) => {
        const levels = levelsOf(row.metrics);
        return (
          levels.length > 0 && (
            <Panel key={row.id} title={`Experiment ${row.experiment_id} at each level`}>
              <LevelsTable levels={levels} label={`Each level of experiment ${row.experiment_id}`} />
            </Panel>
          )
        );
      })}
    </>
  );
}
