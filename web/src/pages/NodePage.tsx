import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { type Device, devicesQuery, type Node, nodesQuery } from "../api/queries";
import type { Range } from "../api/historyQueries";
import { HistoryCharts } from "../charts/HistoryCharts";
import { COMPARED_CHARTED } from "../charts/series";
import { Cordon } from "../components/Cordon";
import { HeatMap } from "../components/HeatMap";
import { JobLink } from "../components/JobLink";
import { Facts, Figures, Panel } from "../components/Panel";
import { RangeChoice } from "../components/RangeChoice";
import { Empty, Shown } from "../components/states";
import { Tag } from "../components/Tag";
import { nodeTone } from "../components/tones";
import { UserText } from "../components/UserText";
import { momentInFull } from "../format/times";
import { memory, percent, share } from "../format/units";
import { sumsOf } from "../pool/nodeRows";
import "../styles/pool.css";

/** One node: its devices, its jobs, and how it was. */
export function NodePage() {
  const { name } = useParams({ from: "/nodes/$name" });
  const search = useSearch({ from: "/nodes/$name" });
  const navigate = useNavigate({ from: "/nodes/$name" });
  const range: Range = search.range ?? "1h";
  const nodes = useQuery(nodesQuery);
  const devices = useQuery(devicesQuery);
  const node = nodes.data?.find((row) => row.name === name);
  const own = (devices.data ?? []).filter((device) => device.node === name);
  return (
    <>
      <div className="page-head">
        <h1>
          Node <UserText text={name} />
        </h1>
        {node && <Cordon target={{ kind: "node", name }} state={node.state} />}
        <RangeChoice value={range} onChange={(next) => void navigate({ search: { range: next } })} />
      </div>
      <Shown query={nodes} what="the node">
        {() =>
          node ? (
            <Now node={node} devices={own} />
          ) : (
            <Empty title="This node is not present now">Its history is below, as far as it is kept.</Empty>
          )
        }
      </Shown>
      <HistoryCharts what="nodes" of={[{ id: name, name }]} range={range} charted={COMPARED_CHARTED} />
    </>
  );
}

function Now({ node, devices }: { node: Node; devices: Device[] }) {
  const sums = sumsOf(node, devices);
  return (
    <>
      <Figures
        figures={[
          { name: "Free", value: sums.free, more: `of ${devices.length} GPUs` },
          { name: "Utilization", value: percent(sums.meanPercent), more: "mean" },
          {
            name: "GPU memory in use",
            value: memory(sums.usedMib),
            more: `of ${memory(sums.totalMib)}`,
          },
          { name: "Available", value: memory(sums.availableMib) },
        ]}
      />
      <div className="columns">
        <Panel title="State" aside={<Tag word={node.state} tone={nodeTone(node.state)} />}>
          <Facts
            facts={[
              ["why", node.reason],
              ["reached", node.via ?? "on the server's machine"],
              ["connected", node.connected_at == null ? null : `since ${momentInFull(node.connected_at)}`],
              ["answered", node.last_seen_at == null ? null : momentInFull(node.last_seen_at)],
              ["CPUs", node.cpus],
              ["RAM", node.memory_mib == null ? null : memory(node.memory_mib)],
              ["means", [...new Set(devices.map((device) => device.means))].join(", ")],
              ...Object.entries(node.labels).map(
                ([label, value]) => [label, <UserText key={label} text={value} />] as const,
              ),
            ]}
          />
        </Panel>
        <Panel
          title="GPUs"
          aside={
            <Link to="/devices" search={{ node: node.name }}>
              with their charts
            </Link>
          }
        >
          {devices.length ? <HeatMap devices={devices} /> : <Empty title="None" />}
        </Panel>
        <Panel title="Jobs here">
          <Jobs devices={devices} />
        </Panel>
      </div>
    </>
  );
}

/** The jobs on some devices, each with all that it has of them. */
function Jobs({ devices }: { devices: Device[] }) {
  const jobs = Map.groupBy(
    devices.flatMap((device) => device.holders),
    (holder) => holder.job,
  );
  if (!jobs.size) return <Empty title="None" />;
  return (
    <table>
      <thead>
        <tr>
          <th>Job</th>
          <th>Who</th>
          <th className="number">GPUs</th>
        </tr>
      </thead>
      <tbody>
        {[...jobs].map(([id, holdings]) => (
          <tr key={id}>
            <td>
              <JobLink job={{ id }} />
            </td>
            <td>
              <UserText text={holdings[0]?.user ?? ""} />
            </td>
            <td className="number">
              {share(holdings.reduce((sum, holding) => sum + holding.share_milli, 0))}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
