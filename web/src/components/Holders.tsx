import type { Device } from "../api/queries";
import { share } from "../format/units";
import { JobLink } from "./JobLink";
import { UserText } from "./UserText";

const FIRST = 3;

/** The jobs on a device with their shares, and how many processes are on it that Corral did not start. */
export function Holders({ device }: { device: Device }) {
  const strangers = device.processes.filter((process) => process.job == null);
  return (
    <span>
      {device.holders.slice(0, FIRST).map((holder, at) => (
        <span key={holder.job}>
          {at > 0 && ", "}
          <JobLink job={{ id: holder.job }} /> <UserText text={holder.user} className="quiet" />
          {holder.share_milli < 1000 && <span className="quiet"> {share(holder.share_milli)}</span>}
        </span>
      ))}
      {device.holders.length > FIRST && (
        <span className="quiet"> and {device.holders.length - FIRST} more</span>
      )}
      {device.pod && (
        <span className="quiet">
          {device.holders.length > 0 && ", "}
          pod <UserText text={`${device.pod.namespace}/${device.pod.name}`} />
          {device.pod.owner && (
            <>
              {" "}
              (<UserText text={device.pod.owner} />)
            </>
          )}
        </span>
      )}
      {(device.parts ?? []).map((part, at) => (
        <span key={`${part.pod.namespace}/${part.pod.name}`} className="quiet">
          {(at > 0 || device.holders.length > 0) && ", "}
          pod <UserText text={`${part.pod.namespace}/${part.pod.name}`} /> {share(part.share_milli)}
        </span>
      ))}
      {strangers.length > 0 && (
        <span className="quiet">
          {device.holders.length > 0 && ", "}
          <Stranger process={strangers[0]} /> outside Corral
        </span>
      )}
    </span>
  );
}

function Stranger({ process }: { process?: Device["processes"][number] }) {
  if (process?.container) {
    return (
      <>
        container <UserText text={process.container.name} /> (<UserText text={process.container.image} />)
      </>
    );
  }
  return process?.user ? <UserText text={process.user} /> : <>somebody</>;
}
