import { Link } from "@tanstack/react-router";
import type { Device, Job } from "../../api/queries";
import { JobLink } from "../../components/JobLink";
import { Panel } from "../../components/Panel";
import { TableBox } from "../../components/TableBox";
import { Tag } from "../../components/Tag";
import { deviceTone } from "../../components/tones";
import { UserText } from "../../components/UserText";
import { duration, momentInFull } from "../../format/times";
import { counted, memory, share } from "../../format/units";
import { useNow } from "../../live/useNow";
import { deviceName } from "../../pool/deviceName";
import { type Held, heldDevices, type Holder, type Holding, holdingsByUser } from "../../pool/holdings";

/** So many devices are listed each; more are summed by user. */
const MOST_EACH = 16;
const FIRST_JOBS = 3;

/** Who holds what, since when: of each device, and by user where these are many. */
export function HoldersPanel({ devices, running }: { devices: Device[]; running: Job[] }) {
  const held = heldDevices(devices, running);
  const holdings = holdingsByUser(held);
  return (
    <Panel title="Who holds what" aside={<Link to="/devices">all devices</Link>}>
      {held.length > MOST_EACH ? (
        <ByUser holdings={holdings} />
      ) : (
        <>
          <InShort holdings={holdings} />
          <Each held={held} />
        </>
      )}
    </Panel>
  );
}

/** How many GPUs each user holds, in a line. */
function InShort({ holdings }: { holdings: Holding[] }) {
  if (!holdings.length) return null;
  return (
    <p className="quiet">
      GPUs by user:{" "}
      {holdings.map((holding, at) => (
        <span key={holding.key}>
          {at > 0 && ", "}
          <Who user={holding.user} /> {howMany(holding)}
        </span>
      ))}
    </p>
  );
}

const howMany = ({ outside, devices, milli }: Holding) =>
  outside ? `${devices} outside Corral` : share(milli);

function Each({ held }: { held: Held[] }) {
  return (
    <TableBox label="Who holds what">
      <table>
        <thead>
          <tr>
            <th>GPU</th>
            <th>Who</th>
            <th>What</th>
            <th className="number">Part</th>
            <th className="number">For</th>
          </tr>
        </thead>
        <tbody>
          {held.flatMap(({ device, holders }) =>
            (holders.length ? holders : [null]).map((holder, at) => (
              <tr key={`${device.uuid} ${at}`}>
                {at === 0 && (
                  <th scope="rowgroup" rowSpan={Math.max(1, holders.length)}>
                    <Link to="/devices/$uuid" params={{ uuid: device.uuid }}>
                      <UserText text={deviceName(device)} />
                    </Link>
                  </th>
                )}
                {holder ? <Cells holder={holder} /> : <Nobody device={device} />}
              </tr>
            )),
          )}
        </tbody>
      </table>
    </TableBox>
  );
}

function Cells({ holder }: { holder: Holder }) {
  const part = holder.milli < 1000 ? [share(holder.milli)] : [];
  if (holder.memoryMib != null) part.push(memory(holder.memoryMib));
  return (
    <>
      <td>
        <Who user={holder.user} />
      </td>
      <td>
        {holder.job ? (
          <JobLink job={holder.job} />
        ) : (
          <>
            <Outside /> <UserText text={holder.outside ?? ""} className="quiet" />
          </>
        )}
      </td>
      <td className="number">{part.join(", ") || "whole"}</td>
      <td className="number">
        <For since={holder.since} />
      </td>
    </>
  );
}

function Nobody({ device }: { device: Device }) {
  return (
    <td colSpan={4}>
      <Tag word={device.state} tone={deviceTone(device.state)} />{" "}
      {device.state_reason && <UserText text={device.state_reason} className="quiet" />}
    </td>
  );
}

function ByUser({ holdings }: { holdings: Holding[] }) {
  return (
    <TableBox label="Who holds what">
      <table>
        <thead>
          <tr>
            <th>Who</th>
            <th className="number">GPUs</th>
            <th>What</th>
            <th className="number">For up to</th>
          </tr>
        </thead>
        <tbody>
          {holdings.map((holding) => (
            <tr key={holding.key}>
              <td>
                <Who user={holding.user} />
              </td>
              <td className="number">{holding.outside ? holding.devices : share(holding.milli)}</td>
              <td>{holding.outside ? <Outside /> : <Jobs holding={holding} />}</td>
              <td className="number">
                <For since={holding.since} />
              </td>
            </tr>
          ))}
          {holdings.length === 0 && (
            <tr>
              <td colSpan={4} className="quiet">
                nobody holds any
              </td>
            </tr>
          )}
        </tbody>
      </table>
    </TableBox>
  );
}

function Jobs({ holding: { jobs, user } }: { holding: Holding }) {
  return (
    <>
      {jobs.slice(0, FIRST_JOBS).map((job, at) => (
        <span key={job.id}>
          {at > 0 && ", "}
          <JobLink job={job} />
        </span>
      ))}
      {jobs.length > FIRST_JOBS && (
        <>
          {" and "}
          <Link to="/queue" search={user ? { user } : {}}>
            {counted(jobs.length - FIRST_JOBS, "job")} more
          </Link>
        </>
      )}
    </>
  );
}

function Outside() {
  return (
    <span className="tag" data-tone="warn">
      outside Corral
    </span>
  );
}

function Who({ user }: { user: string | null }) {
  return user === null ? <span className="quiet">not known</span> : <UserText text={user} />;
}

function For({ since }: { since: number | null }) {
  const now = useNow(10_000);
  return since === null ? "–" : <span title={`since ${momentInFull(since)}`}>{duration(now - since)}</span>;
}
