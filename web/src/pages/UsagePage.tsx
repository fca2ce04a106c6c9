import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { kpisQuery, type Report, reportQuery, type ReportRow } from "../api/poolQueries";
import { queuesQuery, type Queue } from "../api/queries";
import { Choice } from "../components/Choice";
import { Panel } from "../components/Panel";
import { Parts } from "../components/Parts";
import { Shown, Empty } from "../components/states";
import { TableBox } from "../components/TableBox";
import { UserText } from "../components/UserText";
import { WasteTable } from "../components/WasteTable";
import { momentInFull } from "../format/times";
import { hours, percent, share } from "../format/units";
import {
  KPI_RANGES,
  REPORT_BY,
  REPORT_RANGE_S,
  REPORT_RANGES,
  type ReportBy,
  type ReportRange,
} from "../pool/choices";
import { kpiName, kpiValue, otherLimits, quotaOf } from "../pool/figures";
import { FairSharesPanel } from "./usage/FairSharesPanel";
import "../styles/pool.css";

/** What users, projects and queues may have, had, wasted, and what it cost. */
export function UsagePage() {
  const search = useSearch({ from: "/usage" });
  const navigate = useNavigate({ from: "/usage" });
  const range: ReportRange = search.range ?? "7d";
  const by: ReportBy = search.by ?? "user";
  const report = useQuery(reportQuery(by, REPORT_RANGE_S[range]));
  return (
    <>
      <div className="page-head">
        <h1>Users and projects</h1>
        <Choice
          label="Group by"
          options={REPORT_BY}
          value={by}
          onChange={(next) => void navigate({ search: (old) => ({ ...old, by: next }) })}
        />
        <Choice
          label="Range"
          options={REPORT_RANGES}
          value={range}
          onChange={(next) => void navigate({ search: (old) => ({ ...old, range: next }) })}
        />
      </div>
      <Shown query={report} what="the report">
        {(found) => (
          <Panel
            title="GPU-hours"
            aside={
              <span className="quiet">
                {momentInFull(found.since)} to {momentInFull(found.until)}
              </span>
            }
          >
            {found.rows.length ? (
              <ReportTable report={found} by={by} />
            ) : (
              <Empty title="No GPU was used in this time">Choose a longer one.</Empty>
            )}
          </Panel>
        )}
      </Shown>
      <Panel title="Quotas">
        <Quotas />
      </Panel>
      <FairSharesPanel />
      <Panel title="Used less than granted" aside={<span className="quiet">in {range}</span>}>
        <WasteTable rangeS={REPORT_RANGE_S[range]} />
      </Panel>
      <Kpis />
    </>
  );
}

function ReportTable({ report, by }: { report: Report; by: ReportBy }) {
  const all = report.total.gpu_hours;
  return (
    <TableBox label="GPU-hours of each">
      <table>
        <thead>
          <tr>
            <th style={{ textTransform: "capitalize" }}>{by}</th>
            <th className="number">GPU-hours</th>
            <th className="number">Part of all</th>
            <th className="hide-narrow">
              <span className="only-read-aloud">Used and idle, as a bar</span>
            </th>
            <th className="number">Used</th>
            <th className="number">Idle</th>
            <th className="number hide-narrow">Unmetered</th>
            <th className="number">Wasted</th>
            <th className="number hide-narrow">kWh</th>
            <th className="number">Cost{report.currency && ` ${report.currency}`}</th>
          </tr>
        </thead>
        <tbody>
          {report.rows.map((row) => (
            <ReportLine key={row.names[by]} row={row} all={all} name={row.names[by] ?? "–"} />
          ))}
          {report.others && <ReportLine row={report.others} all={all} name={`${report.left_out} others`} />}
          <ReportLine row={report.total} all={all} name="all" />
        </tbody>
      </table>
    </TableBox>
  );
}

function ReportLine({ row, all, name }: { row: ReportRow; all: number; name: string }) {
  const part = (value: number) => percent(row.gpu_hours ? (100 * value) / row.gpu_hours : null);
  return (
    <tr>
      <td>
        <UserText text={name} />
      </td>
      <td className="number">{hours(row.gpu_hours)}</td>
      <td className="number">{percent(all ? (100 * row.gpu_hours) / all : null)}</td>
      <td className="hide-narrow">
        <Parts
          whole={row.gpu_hours}
          parts={[
            { key: "used", size: row.used_hours, colour: "var(--busy)" },
            { key: "idle", size: row.idle_hours, colour: "var(--warn)" },
            { key: "unmetered", size: row.unmetered_hours, colour: "var(--off)" },
          ]}
        />
      </td>
      <td className="number">{part(row.used_hours)}</td>
      <td className="number">{part(row.idle_hours)}</td>
      <td className="number hide-narrow">{part(row.unmetered_hours)}</td>
      <td className="number">{part(row.wasted_hours)}</td>
      <td className="number hide-narrow">{row.energy_kwh == null ? "–" : row.energy_kwh.toFixed(2)}</td>
      <td
        className="number"
        title={row.unpriced_hours ? `${hours(row.unpriced_hours)} GPU-hours have no price` : undefined}
      >
        {row.cost == null ? "–" : row.cost.toFixed(2)}
      </td>
    </tr>
  );
}

function Quotas() {
  const queues = useQuery(queuesQuery);
  return (
    <Shown query={queues} what="the quotas">
      {(rows) => (
        <TableBox label="Quotas and their use">
          <table>
            <thead>
              <tr>
                <th>Of</th>
                <th>Policy</th>
                <th className="number">Quota</th>
                <th className="number">In use</th>
                <th className="number">Waiting</th>
                <th className="number">Left to you</th>
                <th>Other limits</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row: Queue) => (
                <tr key={`${row.kind} ${row.name}`}>
                  <td>
                    <span className="quiet">{row.kind}</span> <UserText text={row.name} />
                    {row.parent && (
                      <span className="quiet">
                        {" "}
                        below <UserText text={row.parent} />
                      </span>
                    )}
                  </td>
                  <td>{row.policy && <UserText text={row.policy} />}</td>
                  <td className="number">{quotaOf(row.quota)}</td>
                  <td className="number">{share(row.used_milli)}</td>
                  <td className="number">{row.waiting}</td>
                  <td className="number">
                    {row.removed ? "–" : row.left_milli == null ? "no limit" : share(row.left_milli)}
                  </td>
                  <td>{row.removed ? "removed; its jobs stay" : otherLimits(row.quota).join(", ")}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </TableBox>
      )}
    </Shown>
  );
}

/** The key figures of the pool, each with what it is. */
function Kpis() {
  const search = useSearch({ from: "/usage" });
  const navigate = useNavigate({ from: "/usage" });
  const range = search.kpis ?? "24h";
  const kpis = useQuery(kpisQuery(range));
  return (
    <Panel
      title="Key figures"
      aside={
        <Choice
          label="Range of the key figures"
          options={KPI_RANGES}
          value={range}
          onChange={(next) =>
            void navigate({ search: (old) => ({ ...old, kpis: next }), resetScroll: false })
          }
        />
      }
    >
      <Shown query={kpis} what="the key figures">
        {(found) => (
          <table>
            <thead>
              <tr>
                <th>Figure</th>
                <th className="number">Is</th>
              </tr>
            </thead>
            <tbody>
              {KPIS.map((name) => (
                <tr key={name}>
                  <td>
                    {kpiName(name)} <small className="quiet formula">{found[name].formula}</small>
                  </td>
                  <td className="number">{kpiValue(found[name])}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </Shown>
    </Panel>
  );
}

const KPIS = [
  "gpu_utilization",
  "memory_utilization",
  "compute_efficiency",
  "temperature",
  "power_consumption",
  "hardware_failures",
  "job_throughput",
  "job_completion_time",
  "queue_wait_time",
  "resource_allocation_time",
  "error_rates",
  "system_response_time",
] as const;
