import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import type { ColumnDef } from "@tanstack/react-table";
import { useMemo } from "react";
import { devicesQuery, jobsQuery, nodesQuery } from "../api/queries";
import { Bar } from "../components/Bar";
import { DataTable } from "../components/DataTable";
import { Panel } from "../components/Panel";
import { Select } from "../components/Select";
import { Empty, Shown } from "../components/states";
import { Tag } from "../components/Tag";
import { nodeTone } from "../components/tones";
import { UserText } from "../components/UserText";
import { moment } from "../format/times";
import { gib, memory, partOf } from "../format/units";
import { MEANS, MEANS_IN_WORDS } from "../pool/means";
import { chosenDevices, type DeviceFilter, nodeRows, type NodeSums } from "../pool/nodeRows";
import "../styles/pool.css";

const RUNNING = { phase: "STARTING,RUNNING,STOPPING", limit: 500 };

const COLUMNS: ColumnDef<NodeSums, unknown>[] = [
  {
    id: "name",
    header: "Node",
    accessorFn: (row) => row.node.name,
    cell: ({ row: { original } }) => (
      <Link to="/nodes/$name" params={{ name: original.node.name }}>
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
  { id: "devices", header: "GPUs", accessorFn: (row) => row.devices.length, meta: { numeric: true } },
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
      <Bar percent={partOf(original.usedMib, original.totalMib)} label="GPU memory in use" />
    ),
    meta: { wide: true },
  },
  {
    id: "used",
    header: "Used GiB",
    accessorFn: (row) => row.usedMib,
    cell: ({ row: { original } }) => gib(original.usedMib),
    meta: { numeric: true },
  },
  {
    id: "available",
    header: "Available GiB",
    accessorFn: (row) => row.availableMib,
    cell: ({ row: { original } }) => gib(original.availableMib),
    meta: { numeric: true },
  },
  {
    id: "cpus",
    header: "CPUs",
    accessorFn: (row) => row.node.cpus,
    meta: { numeric: true, wide: true },
  },
  {
    id: "ram",
    header: "RAM",
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

/** Every node with what its devices come to, or those devices of it that a filter leaves. */
export function NodesPage() {
  const nodes = useQuery(nodesQuery);
  const devices = useQuery(devicesQuery);
  const running = useQuery(jobsQuery(RUNNING));
  const filter = useSearch({ from: "/nodes" });
  const rows = useMemo(() => {
    const chosen = chosenDevices(devices.data ?? [], running.data ?? [], filter);
    return nodeRows(nodes.data ?? [], chosen, filter);
  }, [nodes.data, devices.data, running.data, filter]);
  return (
    <>
      <div className="page-head">
        <h1>Nodes</h1>
        {rows.length > 1 && (
          <Link
            className="button"
            to="/compare"
            search={{
              what: "nodes",
              ids: rows
                .slice(0, 8)
                .map((row) => row.node.name)
                .join(","),
            }}
          >
            Compare
          </Link>
        )}
      </div>
      <Shown query={nodes} what="the nodes">
        {() => (
          <>
            <Filters filter={filter} />
            <Panel title="Now">
              {rows.length ? (
                <DataTable rows={rows} columns={COLUMNS} label="Nodes" keyOf={(row) => row.node.name} />
              ) : (
                <Empty title="No node is like that">Choose less.</Empty>
              )}
            </Panel>
          </>
        )}
      </Shown>
    </>
  );
}

function Filters({ filter }: { filter: DeviceFilter }) {
  const nodes = useQuery(nodesQuery);
  const devices = useQuery(devicesQuery);
  const running = useQuery(jobsQuery(RUNNING));
  const navigate = useNavigate({ from: "/nodes" });
  const set = (field: keyof DeviceFilter, value: string) =>
    void navigate({ search: (old) => ({ ...old, [field]: value || undefined }) });
  const users = (devices.data ?? []).flatMap((device) => device.holders.map((holder) => holder.user));
  const projects = (running.data ?? []).map((job) => job.project);
  return (
    <search className="fields">
      <Select
        label="Node"
        value={filter.node}
        options={(nodes.data ?? []).map((node) => [node.name, node.name])}
        onChange={(value) => set("node", value)}
      />
      <Select
        label="Means"
        value={filter.means}
        options={MEANS.map((means) => [means, MEANS_IN_WORDS[means]])}
        onChange={(value) => set("means", value)}
      />
      <Select
        label="User"
        value={filter.user}
        options={named(users)}
        onChange={(value) => set("user", value)}
      />
      <Select
        label="Project"
        value={filter.project}
        options={named(projects)}
        onChange={(value) => set("project", value)}
      />
    </search>
  );
}

const named = (names: readonly string[]): [string, string][] =>
  [...new Set(names)].sort().map((name) => [name, name]);
