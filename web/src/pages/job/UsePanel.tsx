import { useQuery } from "@tanstack/react-query";
import { devicesQuery, type JobDetail } from "../../api/queries";
import { Facts, Panel } from "../../components/Panel";
import { useNow } from "../../live/useNow";
import { hours, requestAgainstUse } from "./jobUse";

/** What a job asked for beside what it used, and what that came to. */
export function UsePanel({ job }: { job: JobDetail }) {
  const now = useNow(10_000);
  const devices = useQuery(devicesQuery);
  const ran = job.started_at == null ? null : (job.ended_at ?? now) - job.started_at;
  const use = job.use;
  return (
    <Panel title="Request and use">
      <table>
        <thead>
          <tr>
            <th>What</th>
            <th className="number">Asked for, or had</th>
            <th className="number">Used</th>
          </tr>
        </thead>
        <tbody>
          {requestAgainstUse(job, devices.data ?? [], ran).map((row) => (
            <tr key={row.what}>
              <td>{row.what}</td>
              <td className="number">{row.asked}</td>
              <td className="number">{row.used}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {use && (
        <Facts
          facts={[
            ["GPU-hours idle", hours(use.idle_hours)],
            ["not measured", use.unmetered_hours ? hours(use.unmetered_hours) : null],
            ["wasted", use.wasted_hours ? hours(use.wasted_hours) : null],
            ["energy", use.energy_kwh == null ? null : `${use.energy_kwh.toFixed(2)} kWh`],
            ["cost", use.cost == null ? null : `${use.cost.toFixed(2)} ${use.currency ?? ""}`],
          ]}
        />
      )}
    </Panel>
  );
}
