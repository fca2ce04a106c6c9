import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { mayAcknowledge, mayEndSilence, maySilence, mayWork } from "../access/rights";
import { answered, api } from "../api/client";
import { type Alert, alertsQuery, sessionQuery, type Silence } from "../api/queries";
import { silencesQuery } from "../api/poolQueries";
import { AlertSentence } from "../components/AlertSentence";
import { Panel } from "../components/Panel";
import { SilenceDialog } from "../components/SilenceDialog";
import { Empty, Failed, Shown } from "../components/states";
import { TableBox } from "../components/TableBox";
import { Tag } from "../components/Tag";
import { severityTone } from "../components/tones";
import { UserText } from "../components/UserText";
import { duration, moment, momentInFull } from "../format/times";
import { useNow } from "../live/useNow";
import "../styles/pool.css";

/** A longer list is narrowed rather than read. */
const MOST_SHOWN = 200;
const SEVERITIES = ["critical", "warning", "info"] as const;

/** Active and resolved alerts, and silences. */
export function AlertsPage() {
  const search = useSearch({ from: "/alerts" });
  const navigate = useNavigate({ from: "/alerts" });
  const session = useQuery(sessionQuery);
  const alerts = useQuery(alertsQuery(search.over ?? false));
  const [silencing, setSilencing] = useState<string | null>(null);
  return (
    <>
      <div className="page-head">
        <h1>Alerts</h1>
        {mayWork(session.data) && (
          <button type="button" className="button" onClick={() => setSilencing("")}>
            New silence
          </button>
        )}
      </div>
      <search className="fields">
        <div className="field">
          <label htmlFor="severity">Severity</label>
          <select
            id="severity"
            value={search.severity ?? ""}
            onChange={(event) =>
              void navigate({ search: (old) => ({ ...old, severity: event.target.value || undefined }) })
            }
          >
            <option value="">all</option>
            {SEVERITIES.map((severity) => (
              <option key={severity}>{severity}</option>
            ))}
          </select>
        </div>
        <label>
          <input
            type="checkbox"
            checked={search.over ?? false}
            onChange={(event) =>
              void navigate({ search: (old) => ({ ...old, over: event.target.checked || undefined }) })
            }
          />{" "}
          also resolved alerts
        </label>
      </search>
      <Shown query={alerts} what="the alerts">
        {({ alerts: rows, left_out }) => (
          <AlertPanels
            rows={rows.filter((alert) => !search.severity || alert.severity === search.severity)}
            leftOut={left_out}
            over={search.over ?? false}
            onSilence={setSilencing}
          />
        )}
      </Shown>
      <Silences />
      {silencing !== null && <SilenceDialog match={silencing} onClose={() => setSilencing(null)} />}
    </>
  );
}

function AlertPanels({
  rows,
  leftOut,
  over,
  onSilence,
}: {
  rows: Alert[];
  leftOut: Record<string, number>;
  over: boolean;
  onSilence: (match: string) => void;
}) {
  const firing = rows.filter((alert) => alert.state === "firing");
  const ended = rows.filter((alert) => alert.state !== "firing");
  return (
    <>
      <Panel title={`Active (${firing.length})`}>
        {firing.length ? <AlertItems alerts={firing} onSilence={onSilence} /> : <Empty title="No alerts" />}
        {Object.entries(leftOut).map(([rule, count]) => (
          <p className="quiet" key={rule}>
            {count} more of <UserText text={rule} />
          </p>
        ))}
      </Panel>
      {over && (
        <Panel title={`Resolved (${ended.length})`} aside={<span className="quiet">of 7 days</span>}>
          {ended.length ? (
            <AlertItems alerts={ended} onSilence={onSilence} />
          ) : (
            <Empty title="None in 7 days" />
          )}
        </Panel>
      )}
    </>
  );
}

function AlertItems({ alerts, onSilence }: { alerts: Alert[]; onSilence: (match: string) => void }) {
  return (
    <>
      <ul className="alerts">
        {alerts.slice(0, MOST_SHOWN).map((alert) => (
          <AlertItem key={alert.id} alert={alert} onSilence={onSilence} />
        ))}
      </ul>
      {alerts.length > MOST_SHOWN && (
        <p className="quiet">{alerts.length - MOST_SHOWN} more: choose a severity.</p>
      )}
    </>
  );
}

function AlertItem({ alert, onSilence }: { alert: Alert; onSilence: (match: string) => void }) {
  const now = useNow(10_000);
  const session = useQuery(sessionQuery);
  const client = useQueryClient();
  const acknowledge = useMutation({
    mutationFn: () =>
      answered(api.POST("/api/v1/alerts/{alert_id}/ack", { params: { path: { alert_id: alert.id } } })),
    onSettled: () => client.invalidateQueries({ queryKey: ["alerts"] }),
  });
  const over = alert.resolved_at != null;
  return (
    <li>
      <div className="alert-head">
        <Tag word={alert.severity} tone={over ? "off" : severityTone(alert.severity)} />
        <strong>
          <UserText text={alert.rule} />
        </strong>
        {alert.silenced && <Tag word="silenced" tone="off" />}
        {alert.acknowledged_by && (
          <span className="quiet">
            acknowledged by <UserText text={alert.acknowledged_by} />
          </span>
        )}
      </div>
      <p>
        <AlertSentence alert={alert} />
      </p>
      <div className="alert-head">
        <span className="quiet" title={momentInFull(alert.since)}>
          {over
            ? `${moment(alert.since)} to ${moment(alert.resolved_at)}`
            : `since ${moment(alert.since)}, ${duration(now - alert.since)}`}
          {alert.resolved_by && (
            <>
              {", "}
              <UserText text={alert.resolved_by} />
            </>
          )}
        </span>
        <code className="quiet">{alert.id}</code>
        {mayAcknowledge(session.data, alert) && (
          <button
            type="button"
            className="button"
            disabled={acknowledge.isPending}
            onClick={() => acknowledge.mutate()}
          >
            Acknowledge<span className="only-read-aloud"> {alert.id}</span>
          </button>
        )}
        {maySilence(session.data, alert) && !alert.silenced && (
          <button type="button" className="button" onClick={() => onSilence(alert.id)}>
            Silence<span className="only-read-aloud"> {alert.id}</span>
          </button>
        )}
      </div>
      {acknowledge.error && <Failed error={acknowledge.error} />}
    </li>
  );
}

function Silences() {
  const silences = useQuery(silencesQuery);
  return (
    <Panel title="Silences">
      <Shown query={silences} what="the silences">
        {(rows) =>
          rows.length ? (
            <TableBox label="Silences in force">
              <table>
                <thead>
                  <tr>
                    <th>Alerts</th>
                    <th>Until</th>
                    <th>By</th>
                    <th className="number">Active now</th>
                    <th>Reason</th>
                    <th>
                      <span className="only-read-aloud">End it</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {rows.map((silence) => (
                    <SilenceLine key={silence.id} silence={silence} />
                  ))}
                </tbody>
              </table>
            </TableBox>
          ) : (
            <Empty title="No alerts are silenced" />
          )
        }
      </Shown>
    </Panel>
  );
}

function SilenceLine({ silence }: { silence: Silence }) {
  const session = useQuery(sessionQuery);
  const client = useQueryClient();
  const end = useMutation({
    mutationFn: () =>
      answered(api.DELETE("/api/v1/silences/{silence_id}", { params: { path: { silence_id: silence.id } } })),
    onSettled: async () => {
      await client.invalidateQueries({ queryKey: ["silences"] });
      await client.invalidateQueries({ queryKey: ["alerts"] });
    },
  });
  return (
    <tr>
      <td>
        <code>
          <UserText text={silence.match} />
        </code>
        {silence.user !== null && (
          <span className="quiet">
            {" "}
            of jobs of <UserText text={silence.user} />
          </span>
        )}
      </td>
      <td title={momentInFull(silence.until)}>{moment(silence.until)}</td>
      <td>
        <UserText text={silence.by} />
      </td>
      <td className="number">{silence.alerts}</td>
      <td>
        <UserText text={silence.reason} />
      </td>
      <td>
        {mayEndSilence(session.data, silence) && (
          <button
            type="button"
            className="button"
            disabled={end.isPending}
            title="Messages about its alerts that are still active are sent then"
            onClick={() => end.mutate()}
          >
            End<span className="only-read-aloud"> silence {silence.id}</span>
          </button>
        )}
        {end.error && <span role="alert">{end.error.message}</span>}
      </td>
    </tr>
  );
}
