import type { Device } from "../api/queries";
import { memory, share } from "../format/units";
import { JobLink } from "./JobLink";
import { Empty } from "./states";
import { UserText } from "./UserText";

const HUES = [205, 165, 280, 35, 330, 95, 250, 15];

/** How much of a device each job has: a bar, and the same as a table. */
export function AllocationBar({ device }: { device: Pick<Device, "holders"> }) {
  const taken = device.holders.reduce((sum, holder) => sum + holder.share_milli, 0);
  if (!device.holders.length) return <Empty title="Not allocated" />;
  return (
    <>
      <div
        aria-hidden="true"
        style={{
          display: "flex",
          height: 14,
          borderRadius: 7,
          overflow: "hidden",
          background: "var(--raised)",
        }}
      >
        {device.holders.map((holder, at) => (
          <span
            key={holder.job}
            style={{
              width: `${holder.share_milli / 10}%`,
              background: `hsl(${HUES[at % HUES.length]} 55% 50%)`,
            }}
          />
        ))}
      </div>
      <table>
        <thead>
          <tr>
            <th>Job</th>
            <th>Who</th>
            <th className="number">Share</th>
            <th className="number">Memory</th>
          </tr>
        </thead>
        <tbody>
          {device.holders.map((holder) => (
            <tr key={holder.job}>
              <td>
                <JobLink job={{ id: holder.job }} />
              </td>
              <td>
                <UserText text={holder.user} />
              </td>
              <td className="number">{share(holder.share_milli)}</td>
              <td className="number">
                {holder.memory_mib == null ? "what goes with it" : memory(holder.memory_mib)}
              </td>
            </tr>
          ))}
          {taken < 1000 && (
            <tr>
              <td className="quiet">free</td>
              <td />
              <td className="number">{share(1000 - taken)}</td>
              <td />
            </tr>
          )}
        </tbody>
      </table>
    </>
  );
}
