import { useQuery } from "@tanstack/react-query";
import { wasteQuery } from "../api/poolQueries";
import { hours, memory } from "../format/units";
import { JobLink } from "./JobLink";
import { Empty, Shown } from "./states";
import { TableBox } from "./TableBox";
import { UserText, visible } from "./UserText";

/** Jobs that did not use what they were granted, with the request that would have done. */
export function WasteTable({ rangeS }: { rangeS: number }) {
  const waste = useQuery(wasteQuery(rangeS));
  return (
    <Shown query={waste} what="the waste">
      {({ rows, left_out }) =>
        rows.length ? (
          <TableBox label="Jobs that used less than their grant">
            <table>
              <thead>
                <tr>
                  <th>Job</th>
                  <th>Who</th>
                  <th className="number">GPUs used</th>
                  <th className="number">Idle hours</th>
                  <th className="number hide-narrow">Most memory</th>
                  <th>Enough would be</th>
                </tr>
              </thead>
              <tbody>
                {rows.map((row) => (
                  <tr key={row.job}>
                    <td>
                      <JobLink job={{ id: row.job, name: row.name }} />
                    </td>
                    <td>
                      <UserText text={row.user} />
                    </td>
                    <td className="number">
                      {row.devices_used} of {row.devices}
                    </td>
                    <td className="number">{hours(row.idle_hours)}</td>
                    <td className="number hide-narrow">
                      {memory(row.memory_most_mib)}
                      {row.memory_granted_mib != null && ` of ${memory(row.memory_granted_mib)}`}
                    </td>
                    <td>
                      <code title={visible(row.command)}>{row.request || "no GPU"}</code>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
            {left_out > 0 && <p className="quiet">{left_out} more</p>}
          </TableBox>
        ) : (
          <Empty title="None" />
        )
      }
    </Shown>
  );
}
