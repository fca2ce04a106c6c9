import { useQuery } from "@tanstack/react-query";
import { fairSharesQuery } from "../../api/poolQueries";
import { queuesQuery } from "../../api/queries";
import { Panel } from "../../components/Panel";
import { Empty, Shown } from "../../components/states";
import { TableBox } from "../../components/TableBox";
import { UserText } from "../../components/UserText";
import { duration } from "../../format/times";
import { hours } from "../../format/units";

const HOUR_S = 3600;
const FAIR_SHARE = "fair-share";

/** What each project and user counts as having used, which decides who is next under the policy `fair-share`. */
export function FairSharesPanel() {
  const shares = useQuery(fairSharesQuery);
  return (
    <Panel
      title="Fair shares"
      aside={
        shares.data && (
          <span className="quiet">GPU-hours, worth half after {duration(shares.data.half_life_s)}</span>
        )
      }
    >
      <Shown query={shares} what="the fair shares">
        {({ rows, half_life_s }) =>
          rows.length ? (
            <TableBox label="Fair shares">
              <table>
                <thead>
                  <tr>
                    <th>Project</th>
                    <th>User</th>
                    <th className="number">Weight</th>
                    <th className="number">Past</th>
                    <th className="number">Held</th>
                    <th className="number">Counts as</th>
                  </tr>
                </thead>
                <tbody>
                  {rows.map((row) => (
                    <tr key={`${row.project}\n${row.user ?? ""}`}>
                      <td>
                        <UserText text={row.project} className={row.user === null ? undefined : "quiet"} />
                      </td>
                      <td>{row.user === null ? "all" : <UserText text={row.user} />}</td>
                      <td className="number">{row.weight}</td>
                      <td className="number">{hours(row.past_gpu_s / HOUR_S)}</td>
                      <td className="number">{hours(row.held_gpu_s / HOUR_S)}</td>
                      <td className="number">{hours(row.weighed_gpu_s / HOUR_S)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
              <p className="quiet formula">
                Counts as is past and held, divided by the weight. Past is what has ended, worth half after{" "}
                {duration(half_life_s)}; held is what is allocated now, counted an hour ahead. <ServedSo />
              </p>
            </TableBox>
          ) : (
            <Empty title="Nobody has used a GPU yet" />
          )
        }
      </Shown>
    </Panel>
  );
}

/** Which queues go by the shares. */
function ServedSo() {
  const queues = useQuery(queuesQuery);
  if (!queues.data) return null;
  const names = queues.data.filter((row) => row.policy === FAIR_SHARE).map((row) => row.name);
  if (!names.length) return <>No queue has the policy {FAIR_SHARE}, so they have no effect now.</>;
  return (
    <>
      The user with the lowest value goes first in{" "}
      {names.map((name, at) => (
        <span key={name}>
          {at > 0 && ", "}
          <UserText text={name} />
        </span>
      ))}
      .
    </>
  );
}
