import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { type Device, devicesQuery } from "../api/queries";
import type { Range } from "../api/historyQueries";
import { HistoryCharts } from "../charts/HistoryCharts";
import { DEVICE_CHARTED } from "../charts/series";
import { AllocationBar } from "../components/AllocationBar";
import { Cordon } from "../components/Cordon";
import { DeviceHistory } from "../components/DeviceHistory";
import { Facts, Figures, Panel } from "../components/Panel";
import { RangeChoice } from "../components/RangeChoice";
import { Empty, Shown } from "../components/states";
import { Tag } from "../components/Tag";
import { deviceTone, healthTone } from "../components/tones";
import { UserText } from "../components/UserText";
import { moment } from "../format/times";
import { celsius, memory, percent, shortModel, watts } from "../format/units";
import { deviceName } from "../pool/deviceName";
import "../styles/pool.css";

/** One device: what it is, who has it, who uses it, and how it was. */
export function DevicePage() {
  const { uuid } = useParams({ from: "/devices/$uuid" });
  const search = useSearch({ from: "/devices/$uuid" });
  const navigate = useNavigate({ from: "/devices/$uuid" });
  const range: Range = search.range ?? "1h";
  const devices = useQuery(devicesQuery);
  const device = devices.data?.find((row) => row.uuid === uuid);
  return (
    <>
      <div className="page-head">
        <h1>
          {device ? (
            <>
              {device.node && <UserText text={device.node} />} GPU {device.index ?? "?"}
            </>
          ) : (
            "Device"
          )}
        </h1>
        {device && (
          <Cordon
            target={{ kind: "device", uuid, name: `${device.node ?? ""} GPU ${device.index ?? ""}`.trim() }}
            state={device.state}
          />
        )}
        <RangeChoice value={range} onChange={(next) => void navigate({ search: { range: next } })} />
      </div>
      <Shown query={devices} what="the device">
        {() =>
          device ? (
            <Now device={device} />
          ) : (
            <Empty title="This device is not present now">Its history is below, as far as it is kept.</Empty>
          )
        }
      </Shown>
      <HistoryCharts
        what="devices"
        of={[{ id: uuid, name: device ? deviceName(device) : uuid }]}
        range={range}
        charted={DEVICE_CHARTED}
      />
    </>
  );
}

/** Its recorded health: a job may run on a sick device, so the state does not always tell it. */
function Health({ device }: { device: Device }) {
  return (
    <>
      <Tag word={device.health ?? "healthy"} tone={healthTone(device.health ?? "healthy")} />
      {device.health_since != null && ` since ${moment(device.health_since)}`}
      {device.health_reason && (
        <>
          {": "}
          <UserText text={device.health_reason} />
        </>
      )}
    </>
  );
}

function Now({ device }: { device: Device }) {
  const limit = device.job_power_limit_w ?? device.power_limit_w;
  return (
    <>
      <Figures
        figures={[
          { name: "Utilization", value: percent(device.utilization_pct) },
          {
            name: "Memory in use",
            value: memory(device.memory_used_mib),
            more: `of ${memory(device.memory_total_mib)}`,
          },
          { name: "Temperature", value: celsius(device.temperature_c) },
          {
            name: "Power",
            value: watts(device.power_w),
            more: limit ? `of ${watts(limit)}` : "",
          },
        ]}
      />
      <div className="columns">
        <Panel title="State" aside={<Tag word={device.state} tone={deviceTone(device.state)} />}>
          <Facts
            facts={[
              ["why", device.state_reason],
              ["since", device.state_since == null ? null : moment(device.state_since)],
              ["health", <Health key="health" device={device} />],
              ["model", shortModel(device.name, device.mig_profile)],
              ["shared", device.means],
              ["UUID", <code key="uuid">{device.uuid}</code>],
              ["bus", device.pci_bus_id],
              ["NUMA node", device.numa_node],
              ["compute capability", device.compute_capability],
              ["clocks limited by", device.throttled_by?.join(", ")],
              ["power limit of its job", device.job_power_limit_w && watts(device.job_power_limit_w)],
              ["last Xid error", device.xid || null],
            ]}
          />
        </Panel>
        <Panel title="Allocated to">
          <AllocationBar device={device} />
        </Panel>
        <Panel title="Events">
          <DeviceHistory device={device} />
        </Panel>
        <Panel title="Processes">
          {device.processes.length ? (
            <table>
              <thead>
                <tr>
                  <th className="number">Process</th>
                  <th>Who</th>
                  <th>Command</th>
                  <th className="number">Memory</th>
                </tr>
              </thead>
              <tbody>
                {device.processes.map((process) => (
                  <tr key={process.pid}>
                    <td className="number">{process.pid}</td>
                    <td>{process.user ? <UserText text={process.user} /> : "–"}</td>
                    <td>
                      {process.command ? <UserText text={process.command} className="mono" /> : "–"}
                      {process.container && (
                        <span>
                          {" "}
                          in container <UserText text={process.container.name} /> (
                          <UserText text={process.container.image} />)
                        </span>
                      )}
                      {process.job == null && <span className="quiet"> (outside Corral)</span>}
                    </td>
                    <td className="number">{memory(process.memory_mib)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          ) : (
            <Empty title={device.metered ? "None" : "No readings of this device"} />
          )}
        </Panel>
      </div>
    </>
  );
}
