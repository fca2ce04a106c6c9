import type { Findings } from "../../api/taskQueries";
import { Panel } from "../../components/Panel";
import { TableBox } from "../../components/TableBox";
import { percent, UNKNOWN } from "../../format/units";
import { parameterName } from "../../tuning/figures";

/** How much each parameter alone says of the order of the scores. */
export function ImportancePanel({ findings }: { findings: Findings }) {
  if (!findings.importances.length) return null;
  return (
    <Panel
      title="Importance of parameters"
      aside={
        <span className="quiet">the part of the differences in rank that each parameter explains alone</span>
      }
    >
      <TableBox label="Each parameter">
        <table className="importance">
          <thead>
            <tr>
              <th>Parameter</th>
              <th className="number">Values tried</th>
              <th className="number">Part</th>
              <th aria-hidden="true" />
            </tr>
          </thead>
          <tbody>
            {findings.importances.map((one) => (
              <tr key={one.name}>
                <td>{parameterName(one.name)}</td>
                <td className="number">{one.values}</td>
                <td className="number">{one.part == null ? UNKNOWN : percent(100 * one.part)}</td>
                <td className="importance-bar" aria-hidden="true">
                  <span style={{ width: `${100 * (one.part ?? 0)}%` }} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableBox>
    </Panel>
  );
}
