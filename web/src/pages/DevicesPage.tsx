import { useQueries, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import type { ColumnDef } from "@tanstack/react-table";
import { useMemo } from "react";
import { type Device, deviceHistoryQuery, devicesQuery, RANGES, type Range } from "../api/queries";
import { Chart } from "../charts/Chart";
import { lines } from "../charts/timeSeries";
import { Bar } from "../components/Bar";
import { Choice } from "../components/Choice";
import { DataTable } from "../components/DataTable";
import { Holders } from "../components/Holders";
import { Panel } from "../components/Panel";
import { Empty, Shown } from "../components/states";
import { Tag } from "../components/Tag";
import { deviceTone } from "../components/tones";
import { UserText } from "../components/UserText";
import { celsius, memory, partOf, shortModel, watts } from "../format/units";

/** More lines than this in one chart cannot be told apart. */
const MOST_LINES = 16;
const CHARTED = [
  { series: "utilization_pct", title: "Utilisation", unit: "%", max: 100 },
  { series: "memory_used_mib", title: "Memory", unit: "MiB", max: undefined },
  { series: "temperature_c", title: "Temperature", unit: "°C", max: undefined },
  { series: "power_w", title: "Power", unit: "W", max: undefined },
] as const;

const COLUMNS: ColumnDef<Device, unknown>[] = [
  {
    id: "device",
    header: "GPU",
    accessorFn: (device) => `${device.node ?? ""}:${String(device.index ?? 0).padStart(3, "0")}`,
    cell: ({ row: { original } }) => (
      <Link to="/devices/$uuid" params={{ uuid: original.uuid }}>
        {original.node ? (
          <UserText text={`${original.node}:${original.index ?? "?"}`} />
        ) : (
          (original.index ?? "?")
        )}
      </Link>
    ),
  },
  {
    id: "model",
    header: "Model",
    accessorFn: (device) => shortModel(device.name, device.mig_profile),
    meta: { wide: true },
  },
  {
    accessorKey: "state",
    header: "State",
    cell: ({ row: { original } }) => (
      <Tag
        word={original.state}
        tone={deviceTone(original.state)}
        title={original.state_reason ?? undefined}
      />
    ),
  },
  {
    accessorKey: "utilization_pct",
    header: "Utilisation",
    sortUndefined: "last",
    cell: ({ row: { original } }) => <Bar percent={original.utilization_pct} label="Utilisation" />,
  },
  {
    id: "memory",
    header: "Memory",
    accessorFn: (device) => partOf(device.memory_used_mib, device.memory_total_mib),
    cell: ({ row: { original } }) => (
      <Bar percent={partOf(original.memory_used_mib, original.memory_total_mib)} label="Memory" />
    ),
  },
  {
    id: "free",
    header: "Free",
    accessorKey: "memory_free_mib",
    cell: ({ row: { original } }) => memory(original.memory_free_mib),
    meta: { numeric: true, wide: true },
  },
  {
    accessorKey: "temperature_c",
    header: "Heat",
    cell: ({ row: { original } }) => celsius(original.temperature_c),
    meta: { numeric: true, wide: true },
  },
  {
    accessorKey: "power_w",
    header: "Power",
    cell: ({ row: { original } }) => watts(original.power_w),
    meta: { numeric: true, wide: true },
  },
  {
    id: "holders",
    header: "Who",
    enableSorting: false,
    cell: ({ row: { original } }) => <Holders device={original} />,
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
        <Choice
          label="Range of the charts"
          options={RANGES}
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
                <DataTable
                  rows={chosen(rows)}
                  columns={COLUMNS}
                  label="Devices"
                  keyOf={(device) => device.uuid}
                />
              ) : (
                <Empty title="No device is like that">Choose another node or state.</Empty>
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
  const series = useMemo(() => CHARTED.map((each) => each.series), []);
  const histories = useQueries({
    queries: drawn.map((device) => deviceHistoryQuery(device.uuid, range, series)),
    combine: dataOf,
  });
  const names = drawn.map((device) => `${device.node ? `${device.node}:` : ""}${device.index}`).join("\n");
  // Readings come each second, and change none of this: nothing is drawn again for them.
  const options = useMemo(() => optionsOf(histories, names.split("\n")), [histories, names]);
  if (!drawn.length) return null;
  return (
    <>
      {devices.length > drawn.length && (
        <p className="quiet">
          The charts have the first {drawn.length} of {devices.length} devices; choose a node for others.
        </p>
      )}
      <div className="columns">
        {CHARTED.map(({ series: name, title, unit }, at) => (
          <Panel key={name} title={`${title} (${unit})`}>
            {options ? (
              <Chart
                group="devices"
                label={`${title} of ${drawn.length} devices over ${range}`}
                option={options[at] ?? {}}
              />
            ) : (
              <div className="chart" />
            )}
          </Panel>
        ))}
      </div>
    </>
  );
}

type History = NonNullable<
  Awaited<ReturnType<NonNullable<ReturnType<typeof deviceHistoryQuery>["queryFn"]>>>
>;

const dataOf = (results: { data: History | undefined }[]) => results.map((result) => result.data);

/** What each chart draws; undefined while nothing is there yet. */
function optionsOf(histories: (History | undefined)[], names: string[]) {
  const first = histories.find((history) => history !== undefined);
  if (!first) return undefined;
  return CHARTED.map(({ series, unit, max }) =>
    lines(
      names.map((name, at) => ({ name, points: histories[at]?.series[series] ?? [] })),
      { fromS: first.from, toS: first.to, stepS: first.step_s, unit, max },
    ),
  );
}
