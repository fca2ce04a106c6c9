import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type Device, devicesQuery } from "../api/queries";
import type { Range } from "../api/historyQueries";
import { HistoryCharts } from "../charts/HistoryCharts";
import { DEVICES_CHARTED } from "../charts/series";
import { Bar } from "../components/Bar";
import { DataTable } from "../components/DataTable";
import { Holders } from "../components/Holders";
import { Panel } from "../components/Panel";
import { RangeChoice } from "../components/RangeChoice";
import { Empty, Shown } from "../components/states";
import type { Column } from "../components/tableRows";
import { Tag } from "../components/Tag";
import { deviceTone } from "../components/tones";
import { UserText } from "../components/UserText";
import { deviceName } from "../pool/deviceName";
import { celsius, memory, partOf, shortModel, watts } from "../format/units";

/** More lines than this in one chart cannot be told apart. */
const MOST_LINES = 16;
const uuidOf = (device: Device) => device.uuid;

const COLUMNS: Column<Device>[] = [
  {
    id: "device",
    header: "GPU",
    value: (device) => `${device.node ?? ""}:${String(device.index ?? 0).padStart(3, "0")}`,
    cell: (row) => (
      <Link to="/devices/$uuid" params={{ uuid: row.uuid }}>
        {row.node ? <UserText text={`${row.node}:${row.index ?? "?"}`} /> : (row.index ?? "?")}
      </Link>
    ),
  },
  {
    id: "model",
    header: "Model",
    value: (device) => shortModel(device.name, device.mig_profile),
    wide: true,
  },
  {
    id: "state",
    value: (row) => row.state,
    header: "State",
    cell: (row) => (
      <Tag word={row.state} tone={deviceTone(row.state)} title={row.state_reason ?? undefined} />
    ),
  },
  {
    id: "utilization_pct",
    value: (row) => row.utilization_pct,
    header: "Utilization",
    cell: (row) => <Bar percent={row.utilization_pct} label="Utilization" />,
  },
  {
    id: "memory",
    header: "Memory",
    value: (device) => partOf(device.memory_used_mib, device.memory_total_mib),
    cell: (row) => <Bar percent={partOf(row.memory_used_mib, row.memory_total_mib)} label="Memory" />,
  },
  {
    id: "free",
    header: "Free",
    value: (row) => row.memory_free_mib,
    cell: (row) => memory(row.memory_free_mib),
    numeric: true,
    wide: true,
  },
  {
    id: "temperature_c",
    value: (row) => row.temperature_c,
    header: "Heat",
    cell: (row) => celsius(row.temperature_c),
    numeric: true,
    wide: true,
  },
  {
    id: "power_w",
    value: (row) => row.power_w,
    header: "Power",
    cell: (row) => watts(row.power_w),
    numeric: true,
    wide: true,
  },
  {
    id: "holders",
    header: "Who",
    cell: (row) => <Holders device={row} />,
  },
];

/** Every device with its readings, and their history in charts that show one moment together. */
export function DevicesPage() {
  const devices = useQuery(devicesQuery);
  const search = useSearch({ from: "/devices" });
  const navigate = useNavigate({ from: "/devices" });
  const range: Range = search.range ?? "1h";
  const chosen = (rows: Device[]) =>
    rows.filter(
      (device) =>
        (!search.node || device.node === search.node) && (!search.state || device.state === search.state),
    );
  return (
    <>
      <div className="page-head">
        <h1>Devices</h1>
        <RangeChoice
          value={range}
          onChange={(next) => void navigate({ search: (old) => ({ ...old, range: next }) })}
        />
      </div>
      <Shown query={devices} what="the devices">
        {(rows) => (
          <>
            <Filters rows={rows} />
            <Panel title="Now">
              {chosen(rows).length ? (
                <DataTable rows={chosen(rows)} columns={COLUMNS} label="Devices" keyOf={uuidOf} />
              ) : (
                <Empty title="No device matches">Choose another node or state.</Empty>
              )}
            </Panel>
            <Charts devices={chosen(rows)} range={range} />
          </>
        )}
      </Shown>
    </>
  );
}

function Filters({ rows }: { rows: Device[] }) {
  const search = useSearch({ from: "/devices" });
  const navigate = useNavigate({ from: "/devices" });
  const nodes = [...new Set(rows.map((device) => device.node).filter((node) => node != null))].sort();
  const states = [...new Set(rows.map((device) => device.state))].sort();
  return (
    <div className="fields">
      {nodes.length > 1 && (
        <div className="field">
          <label htmlFor="node">Node</label>
          <select
            id="node"
            value={search.node ?? ""}
            onChange={(event) =>
              void navigate({ search: (old) => ({ ...old, node: event.target.value || undefined }) })
            }
          >
            <option value="">all</option>
            {nodes.map((node) => (
              <option key={node}>{node}</option>
            ))}
          </select>
        </div>
      )}
      <div className="field">
        <label htmlFor="state">State</label>
        <select
          id="state"
          value={search.state ?? ""}
          onChange={(event) =>
            void navigate({ search: (old) => ({ ...old, state: event.target.value || undefined }) })
          }
        >
          <option value="">all</option>
          {states.map((state) => (
            <option key={state} value={state}>
              {state.replace("_", " ")}
            </option>
          ))}
        </select>
      </div>
    </div>
  );
}

/** One chart for each reading, with a line for each device. */
function Charts({ devices, range }: { devices: Device[]; range: Range }) {
  const drawn = devices.slice(0, MOST_LINES);
  return (
    <>
      {devices.length > drawn.length && (
        <p className="quiet">
          The charts have the first {drawn.length} of {devices.length} devices; choose a node for others.
        </p>
      )}
      <HistoryCharts
        what="devices"
        of={drawn.map((device) => ({ id: device.uuid, name: deviceName(device) }))}
        range={range}
        charted={DEVICES_CHARTED}
      />
    </>
  );
}
