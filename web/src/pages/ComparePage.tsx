import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { devicesQuery, jobsQuery, nodesQuery } from "../api/queries";
import type { Range } from "../api/historyQueries";
import { HistoryCharts } from "../charts/HistoryCharts";
import { COMPARED_CHARTED } from "../charts/series";
import { Choice } from "../components/Choice";
import { Panel } from "../components/Panel";
import { RangeChoice } from "../components/RangeChoice";
import { Empty } from "../components/states";
import { UserText, visible } from "../components/UserText";
import { COMPARED, type Compared } from "../pool/choices";
import { deviceName } from "../pool/deviceName";
import { idsOf, MOST_COMPARED, withId, withoutId } from "../pool/compared";
import "../styles/pool.css";

const MOST_OFFERED_JOBS = 200;

/** Up to eight nodes, devices or jobs on one axis of time. */
export function ComparePage() {
  const search = useSearch({ from: "/compare" });
  const navigate = useNavigate({ from: "/compare" });
  const what: Compared = search.what ?? "devices";
  const range: Range = search.range ?? "1h";
  const ids = idsOf(search.ids);
  const offered = useOffered(what);
  const nameOf = (id: string) => offered.find(([known]) => known === id)?.[1] ?? id;
  const setIds = (next: string | undefined) => void navigate({ search: (old) => ({ ...old, ids: next }) });
  return (
    <>
      <div className="page-head">
        <h1>Compare</h1>
        <Choice
          label="What is compared"
          options={COMPARED}
          value={what}
          onChange={(next) => void navigate({ search: { range: search.range, what: next } })}
        />
        <RangeChoice
          value={range}
          onChange={(next) => void navigate({ search: (old) => ({ ...old, range: next }) })}
        />
      </div>
      <Panel title={`${ids.length} of at most ${MOST_COMPARED} ${what}`}>
        <ul className="chips">
          {ids.map((id) => (
            <li key={id}>
              <UserText text={nameOf(id)} />
              <button
                type="button"
                aria-label={`Leave out ${visible(nameOf(id))}`}
                onClick={() => setIds(withoutId(ids, id))}
              >
                ×
              </button>
            </li>
          ))}
        </ul>
        <Adder
          what={what}
          offered={offered.filter(([id]) => !ids.includes(id))}
          full={ids.length >= MOST_COMPARED}
          onAdd={(id) => setIds(withId(ids, id))}
        />
      </Panel>
      {ids.length ? (
        <HistoryCharts
          what={what}
          of={ids.map((id) => ({ id, name: nameOf(id) }))}
          range={range}
          charted={COMPARED_CHARTED}
        />
      ) : (
        <Empty title="Nothing is chosen">Add {what} above.</Empty>
      )}
    </>
  );
}

/** What can be added: the id, and the name that is shown. */
function useOffered(what: Compared): [id: string, name: string][] {
  const devices = useQuery({ ...devicesQuery, enabled: what === "devices" });
  const nodes = useQuery({ ...nodesQuery, enabled: what === "nodes" });
  const jobs = useQuery({ ...jobsQuery({ all: true, limit: MOST_OFFERED_JOBS }), enabled: what === "jobs" });
  if (what === "nodes") return (nodes.data ?? []).map((node) => [node.name, node.name]);
  if (what === "jobs")
    return (jobs.data ?? [])
      .filter((job) => job.started_at != null && job.devices.length > 0)
      .map((job) => [job.id, `${job.id} ${job.name} (${job.user})`]);
  return (devices.data ?? []).map((device) => [device.uuid, deviceName(device)]);
}

function Adder({
  what,
  offered,
  full,
  onAdd,
}: {
  what: Compared;
  offered: readonly (readonly [string, string])[];
  full: boolean;
  onAdd: (id: string) => void;
}) {
  if (full) return <p className="quiet">No more than {MOST_COMPARED}: leave one out to add another.</p>;
  return (
    <div className="field" style={{ marginTop: 10, maxWidth: 320 }}>
      <label htmlFor="add">Add {what}</label>
      <select id="add" value="" onChange={(event) => event.target.value && onAdd(event.target.value)}>
        <option value="">{offered.length ? "choose …" : "there are no more"}</option>
        {offered.map(([id, name]) => (
          <option key={id} value={id}>
            {visible(name)}
          </option>
        ))}
      </select>
    </div>
  );
}
