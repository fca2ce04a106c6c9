import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type Alert, alertsQuery } from "../api/queries";
import { moment } from "../format/times";
import { counted } from "../format/units";
import { AlertSentence } from "./AlertSentence";
import { Empty, Shown } from "./states";
import { Tag } from "./Tag";
import { severityTone } from "./tones";

const FIRST = 4;

/** Whether nobody has acknowledged the alert yet. */
export const isUnattended = (alert: Alert): boolean =>
  alert.state === "firing" && alert.acknowledged_by === null && !alert.silenced;

/** The number of alerts that nobody has acknowledged, behind the name of their page. */
export function AlertCount() {
  const alerts = useQuery(alertsQuery());
  const count = alerts.data?.alerts.filter(isUnattended).length ?? 0;
  if (!count) return null;
  return (
    <span className="tag" data-tone="bad">
      {count} <span className="only-read-aloud">not acknowledged</span>
    </span>
  );
}

/** The first alerts that fire, the worst before others. */
export function FiringAlerts() {
  const alerts = useQuery(alertsQuery());
  return (
    <Shown query={alerts} what="the alerts">
      {({ alerts: rows }) =>
        rows.length ? (
          <ul className="plain">
            {rows.slice(0, FIRST).map((alert) => (
              <li key={alert.id}>
                <Tag word={alert.severity} tone={severityTone(alert.severity)} />{" "}
                <AlertSentence alert={alert} /> <span className="quiet">{moment(alert.since)}</span>
              </li>
            ))}
            {rows.length > FIRST && (
              <li>
                <Link to="/alerts">{counted(rows.length - FIRST, "alert")} more</Link>
              </li>
            )}
          </ul>
        ) : (
          <Empty title="No alerts" />
        )
      }
    </Shown>
  );
}
