import { Link } from "@tanstack/react-router";
import type { Device } from "../api/queries";
import { memory, partOf, percent, shortModel } from "../format/units";
import { deviceTone, inWords } from "./tones";
import { UserText, visible } from "./UserText";

const DENSE = 64;

/** All devices by node: the colour is the state, the line below is the use. Each is a link to its page. */
export function HeatMap({ devices }: { devices: Device[] }) {
  const nodes = Map.groupBy(devices, (device) => device.node ?? "");
  return (
    <div className="heat" data-dense={devices.length > DENSE}>
      {[...nodes].map(([node, own]) => (
        <div className="node" key={node}>
          {nodes.size > 1 && (
            <span className="quiet">
              <UserText text={node} />
            </span>
          )}
          <div className="cells">
            {own.map((device) => (
              <Cell key={device.uuid} device={device} />
            ))}
          </div>
        </div>
      ))}
    </div>
  );
}

function Cell({ device }: { device: Device }) {
  const strangers = device.processes.filter((process) => process.job == null);
  const holders = device.holders.map((holder) => `job ${holder.job} of ${visible(holder.user)}`).join(", ");
  const more = [
    device.node && `of ${visible(device.node)}`,
    shortModel(device.name, device.mig_profile),
    inWords(device.state),
    `${percent(device.utilization_pct)} in use`,
    `${memory(device.memory_used_mib)} of ${memory(device.memory_total_mib)}`,
    holders,
    ...strangers.map((process) => `${visible(process.user ?? "somebody")} outside Corral`),
    device.state_reason,
    device.health !== device.state &&
      device.health_reason &&
      `${device.health}: ${visible(device.health_reason)}`,
  ].filter(Boolean);
  const busy = ["allocated", "in_use", "reserved"].includes(device.state);
  return (
    <Link
      to="/devices/$uuid"
      params={{ uuid: device.uuid }}
      className="cell"
      data-tone={deviceTone(device.state)}
      title={more.join("\n")}
    >
      <b>
        <span className="only-read-aloud">GPU </span>
        {device.mig_profile ?? device.index ?? "?"}
      </b>
      <span className="cut">{busy ? percent(device.utilization_pct) : inWords(device.state)}</span>
      <span className="cut" aria-hidden="true">
        {namesOf(device)}
      </span>
      <span className="only-read-aloud">, {more.join(", ")}</span>
      <i style={{ transform: `scaleX(${(partOf(device.utilization_pct, 100) ?? 0) / 100})` }} />
    </Link>
  );
}

/** Who has it in one word: "alice", "alice +1"; in brackets whom Corral has not given it to. */
function namesOf({ holders, processes, pod }: Device): string {
  const users = [...new Set(holders.map((holder) => holder.user))];
  const strangers = processes.filter((process) => process.job == null).map((each) => each.user ?? "somebody");
  const [first, ...others] = [
    ...users,
    ...[...new Set([...strangers, ...(pod ? [pod.namespace] : [])])].map((name) => `(${name})`),
  ];
  return first === undefined ? "" : `${visible(first)}${others.length ? ` +${others.length}` : ""}`;
}
