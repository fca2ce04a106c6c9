import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { allocMapQuery, type MappedDevice } from "../api/poolQueries";
import { devicesQuery } from "../api/queries";
import { JobLink } from "../components/JobLink";
import { Figures, Panel } from "../components/Panel";
import { jobColour, Parts } from "../components/Parts";
import { Select } from "../components/Select";
import { Empty, Shown } from "../components/states";
import { TableBox } from "../components/TableBox";
import { Tag } from "../components/Tag";
import { deviceTone } from "../components/tones";
import { UserText, visible } from "../components/UserText";
import { counted, memory, share, shortModel } from "../format/units";
import "../styles/pool.css";

const WHOLE = 1000;
/** In these states what is not allocated can be had; in others it cannot, and the state says why. */
const OPEN = ["free", "allocated", "reserved"];

/** Which job has how much of which device, and what is free of each. */
export function MapPage() {
  const map = useQuery(allocMapQuery);
  const { node } = useSearch({ from: "/map" });
  const navigate = useNavigate({ from: "/map" });
  return (
    <>
      <div className="page-head">
        <h1>Allocation map</h1>
      </div>
      <Shown query={map} what="the map">
        {(devices) => {
          const nodes = Map.groupBy(devices, (device) => device.node ?? "");
          const shown = [...nodes].filter(([name]) => !node || name === node);
          return (
            <>
              {nodes.size > 1 && (
                <search className="fields">
                  <Select
                    label="Node"
                    value={node}
                    options={[...nodes.keys()].map((name) => [name, name])}
                    onChange={(value) => void navigate({ search: { node: value || undefined } })}
                  />
                </search>
              )}
              <Sums devices={shown.flatMap(([, own]) => own)} />
              {shown.map(([name, own]) => (
                <Panel
                  key={name}
                  title={name ? `Node ${name}` : "Devices"}
                  aside={<span className="quiet">{counted(own.length, "device")}</span>}
                >
                  <DeviceShares devices={own} />
                </Panel>
              ))}
              {!shown.length && <Empty title="There is no device here" />}
            </>
          );
        }}
      </Shown>
    </>
  );
}

function Sums({ devices }: { devices: MappedDevice[] }) {
  const taken = devices.reduce((sum, device) => sum + device.allocated_milli, 0);
  const partly = devices.filter(
    (device) => device.allocated_milli > 0 && device.allocated_milli < WHOLE,
  ).length;
  return (
    <Figures
      figures={[
        { name: "Allocated", value: share(taken), more: `of ${counted(devices.length, "device")}` },
        { name: "Untouched", value: devices.filter((device) => device.allocated_milli === 0).length },
        { name: "Partly free", value: partly },
      ]}
    />
  );
}

function DeviceShares({ devices }: { devices: MappedDevice[] }) {
  const rows = useQuery(devicesQuery);
  const states = new Map(rows.data?.map((device) => [device.uuid, device.state]));
  return (
    <TableBox label={`Shares of devices of ${visible(devices[0]?.node ?? "this machine")}`}>
      <table>
        <thead>
          <tr>
            <th>GPU</th>
            <th className="hide-narrow">Model</th>
            <th className="hide-narrow">Means</th>
            <th className="hide-narrow">
              <span className="only-read-aloud">As a bar</span>
            </th>
            <th className="number">Allocated</th>
            <th className="number">Free</th>
            <th style={{ width: "22%" }}>Jobs</th>
          </tr>
        </thead>
        <tbody>
          {devices.map((device) => (
            <tr key={device.uuid}>
              <td>
                <Link to="/devices/$uuid" params={{ uuid: device.uuid }}>
                  {device.mig_profile ?? device.index ?? "?"}
                </Link>
              </td>
              <td className="hide-narrow">{shortModel(device.name, device.mig_profile)}</td>
              <td className="hide-narrow">{device.held_as}</td>
              <td className="hide-narrow" style={{ width: "30%" }}>
                <Parts
                  whole={WHOLE}
                  parts={device.jobs.map((job) => ({
                    key: job.job,
                    size: job.share_milli,
                    colour: jobColour(job.job),
                  }))}
                />
              </td>
              <td className="number">{share(device.allocated_milli)}</td>
              <td className="number">
                <Rest device={device} state={states.get(device.uuid) ?? "free"} />
              </td>
              <td className="in-text">
                {device.jobs.map((job, at) => (
                  <span key={job.job}>
                    {at > 0 && ", "}
                    <JobLink job={{ id: job.job }} /> <UserText text={job.user} className="quiet" />{" "}
                    <span className="quiet">
                      {job.share_milli < WHOLE && share(job.share_milli)}
                      {job.memory_mib != null && `, ${memory(job.memory_mib)}`}
                    </span>
                  </span>
                ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableBox>
  );
}

function Rest({ device, state }: { device: MappedDevice; state: string }) {
  if (!OPEN.includes(state)) return <Tag word={state} tone={deviceTone(state)} />;
  return share(Math.max(0, WHOLE - device.allocated_milli));
}
