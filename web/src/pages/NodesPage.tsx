import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { devicesQuery, jobsQuery, nodesQuery } from "../api/queries";
import { Bar } from "../components/Bar";
import { DataTable } from "../components/DataTable";
import { Panel } from "../components/Panel";
import { Select } from "../components/Select";
import { Empty, Shown } from "../components/states";
import type { Column } from "../components/tableRows";
import { Tag } from "../components/Tag";
import { nodeTone } from "../components/tones";
import { UserText } from "../components/UserText";
import { moment } from "../format/times";
import { gib, memory, partOf } from "../format/units";
import { MEANS, MEANS_IN_WORDS } from "../pool/means";
import { chosenDevices, type DeviceFilter, nodeRows, type NodeSums } from "../pool/nodeRows";
import "../styles/pool.css";

const RUNNING = { phase: "STARTING,RUNNING,STOPPING", limit: 500 };

const nameOf = (row: NodeSums) => row.node.name;

const COLUMNS: Column<NodeSums>[] = [
  {
    id: "name",
    header: "Node",
    value: (row) => row.node.name,
    cell: (row) => (
      <Link to="/nodes/$name" params={{ name: row.node.name }}>
        <UserText text={row.node.name} />
      </Link>
    ),
  },
  {
    id: "state",
    header: "State",
    value: (row) => row.node.state,
    cell: (row) => (
      <Tag word={row.node.state} tone={nodeTone(row.node.state)} title={row.node.reason ?? undefined} />
    ),
  },
  { id: "devices", header: "GPUs", value: (row) => row.devices.length, numeric: true },
  { id: "free", header: "Free", value: (row) => row.free, numeric: true },
  {
    id: "use",
    header: "Utilization",
    value: (row) => row.meanPercent,
    cell: (row) => <Bar percent={row.meanPercent} label="Mean utilization" />,
  },
  {
    id: "memory",
    header: "GPU memory",
    value: (row) => partOf(row.usedMib, row.totalMib),
    cell: (row) => <Bar percent={partOf(row.usedMib, row.totalMib)} label="GPU memory in use" />,
    wide: true,
  },
  {
    id: "used",
    header: "Used GiB",
    value: (row) => row.usedMib,
    cell: (row) => gib(row.usedMib),
    numeric: true,
  },
  {
    id: "available",
    header: "Available GiB",
    value: (row) => row.availableMib,
    cell: (row) => gib(row.availableMib),
    numeric: true,
  },
  {
    id: "cpus",
    header: "CPUs",
    value: (row) => row.node.cpus,
    numeric: true,
    wide: true,
  },
  {
    id: "ram",
    header: "RAM",
    value: (row) => row.node.memory_mib,
    cell: (row) => memory(row.node.memory_mib),
    numeric: true,
    wide: true,
  },
  {
    id: "seen",
    header: "Answered",
    value: (row) => row.node.last_seen_at,
    cell: (row) => moment(row.node.last_seen_at),
    numeric: true,
    wide: true,
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
                <DataTable rows={rows} columns={COLUMNS} label="Nodes" keyOf={nameOf} />
              ) : (
                <Empty title="No node matches">Remove a filter.</Empty>
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
