import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ColumnDef } from "@tanstack/react-table";
import { useMemo } from "react";
import { type Device, devicesQuery, type Node, nodesQuery } from "../api/queries";
import { Bar } from "../components/Bar";
import { DataTable } from "../components/DataTable";
import { Panel } from "../components/Panel";
import { Empty, Shown } from "../components/states";
import { Tag } from "../components/Tag";
import { nodeTone } from "../components/tones";
import { UserText } from "../components/UserText";
import { moment } from "../format/times";
import { memory, partOf } from "../format/units";

interface Row {
  node: Node;
  free: number;
  usedMib: number | null;
  totalMib: number | null;
  meanPercent: number | null;
}

const COLUMNS: ColumnDef<Row, unknown>[] = [
  {
    id: "name",
    header: "Node",
    accessorFn: (row) => row.node.name,
    cell: ({ row: { original } }) => (
      <Link to="/devices" search={{ node: original.node.name }}>
        <UserText text={original.node.name} />
      </Link>
    ),
  },
  {
    id: "state",
    header: "State",
    accessorFn: (row) => row.node.state,
    cell: ({ row: { original } }) => (
      <Tag
        word={original.node.state}
        tone={nodeTone(original.node.state)}
        title={original.node.reason ?? undefined}
      />
    ),
  },
  { id: "devices", header: "GPUs", accessorFn: (row) => row.node.devices, meta: { numeric: true } },
  { id: "free", header: "Free", accessorKey: "free", meta: { numeric: true } },
  {
    id: "use",
    header: "Utilisation",
    accessorFn: (row) => row.meanPercent,
    cell: ({ row: { original } }) => <Bar percent={original.meanPercent} label="Mean utilisation" />,
  },
  {
    id: "memory",
    header: "GPU memory",
    accessorFn: (row) => partOf(row.usedMib, row.totalMib),
    cell: ({ row: { original } }) => (
      <span title={`${memory(original.usedMib)} of ${memory(original.totalMib)}`}>
        <Bar percent={partOf(original.usedMib, original.totalMib)} label="GPU memory" />
      </span>
    ),
  },
  { id: "cpus", header: "CPUs", accessorFn: (row) => row.node.cpus, meta: { numeric: true, wide: true } },
  {
    id: "ram",
    header: "Host memory",
    accessorFn: (row) => row.node.memory_mib,
    cell: ({ row: { original } }) => memory(original.node.memory_mib),
    meta: { numeric: true, wide: true },
  },
  {
    id: "seen",
    header: "Answered",
    accessorFn: (row) => row.node.last_seen_at,
    cell: ({ row: { original } }) => moment(original.node.last_seen_at),
    meta: { numeric: true, wide: true },
  },
];

/** Every node with what its devices come to. */
export function NodesPage() {
  const nodes = useQuery(nodesQuery);
  const devices = useQuery(devicesQuery);
  const rows = useMemo(
    () => (nodes.data ?? []).map((node) => rowOf(node, devices.data ?? [])),
    [nodes.data, devices.data],
  );
  return (
    <>
      <h1>Nodes</h1>
      <Shown query={nodes} what="the nodes">
        {() => (
          <Panel title="Now">
            {rows.length ? (
              <DataTable rows={rows} columns={COLUMNS} label="Nodes" keyOf={(row) => row.node.name} />
            ) : (
              <Empty title="There is no node" />
            )}
          </Panel>
        )}
      </Shown>
    </>
  );
}

function rowOf(node: Node, devices: Device[]): Row {
  const own = devices.filter((device) => device.node === node.name);
  const whole = own.filter((device) => !device.parent);
  const used = whole.map((device) => device.utilization_pct).filter((value) => value != null);
  return {
    node,
    free: own.filter((device) => device.state === "free").length,
    usedMib: sumOf(whole.map((device) => device.memory_used_mib)),
    totalMib: sumOf(whole.map((device) => device.memory_total_mib)),
    meanPercent: used.length ? used.reduce((sum, value) => sum + value, 0) / used.length : null,
  };
}

/** Null where one of them is not known: a sum without it would be too small. */
function sumOf(values: (number | null)[]): number | null {
  return values.length && values.every((value) => value != null)
    ? values.reduce<number>((sum, value) => sum + (value ?? 0), 0)
    : null;
}
