import { TableBox } from "../../components/TableBox";
import { UserText } from "../../components/UserText";
import { FIGURES, figureText } from "../../tuning/figures";
import type { Level } from "../../tuning/levels";

/** A row for each level of load. */
export function LevelsTable({ levels, label }: { levels: readonly Level[]; label: string }) {
  const shown = FIGURES.filter(({ name }) => levels.some((level) => name in level.figures));
  return (
    <TableBox label={label}>
      <table>
        <thead>
          <tr>
            <th>Scenario</th>
            <th className="number">At a time</th>
            {shown.map((figure) => (
              <th key={figure.name} className="number">
                {figure.label}
              </th>
            ))}
            <th className="number">Requests</th>
            <th className="number">Errors</th>
          </tr>
        </thead>
        <tbody>
          {levels.map((level, at) => (
            <tr key={at}>
              <td>
                <UserText text={level.scenario} />
              </td>
              <td className="number">{level.concurrency}</td>
              {shown.map((figure) => (
                <td key={figure.name} className="number">
                  {figureText(level.figures[figure.name], figure)}
                </td>
              ))}
              <td className="number">{level.requests ?? "–"}</td>
              <td className="number">{level.errors ?? "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableBox>
  );
}
