import { useQueries, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { historyQuery } from "../api/poolQueries";
import { devicesQuery, jobsQuery, nodesQuery, RANGES, type Range } from "../api/queries";
import { HistoryCharts } from "../charts/HistoryCharts";
import { COMPARED_SERIES } from "../charts/series";
import { Choice } from "../components/Choice";
import { Panel } from "../components/Panel";
import { Empty, Failed, Loading } from "../components/states";
import { UserText, visible } from "../components/UserText";
import { COMPARED, type Compared } from "../pool/choices";
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
        <Choice
          label="Range of the charts"
          options={RANGES}
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
        <Charts what={what} range={range} ids={ids} nameOf={nameOf} />
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
  return (devices.data ?? []).map((device) => [
    device.uuid,
    `${device.node ? `${device.node}:` : "GPU "}${device.mig_profile ?? device.index ?? device.uuid}`,
  ]);
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

function Charts({
  what,
  range,
  ids,
  nameOf,
}: {
  what: Compared;
  range: Range;
  ids: readonly string[];
  nameOf: (id: string) => string;
}) {
  const found = useQueries({ queries: ids.map((id) => historyQuery(what, id, range, COMPARED_SERIES)) });
  const histories = found.flatMap((query, at) =>
    query.data ? [{ name: nameOf(ids[at] ?? ""), history: query.data }] : [],
  );
  return (
    <>
      {found.map(
        (query, at) =>
          query.error &&
          !query.data && (
            <Failed
              key={ids[at]}
              error={new Error(`${visible(nameOf(ids[at] ?? ""))}: ${query.error.message}`)}
              retry={() => void query.refetch()}
            />
          ),
      )}
      {histories.length > 0 ? (
        <HistoryCharts group="compare" range={range} histories={histories} />
      ) : (
        found.some((query) => query.isPending) && <Loading what="their history" />
      )}
    </>
  );
}
