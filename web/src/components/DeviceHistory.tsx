import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { alertsQuery, type Device } from "../api/queries";
import { moment, momentInFull } from "../format/times";
import { share } from "../format/units";
import { type ConditionChange, conditionsOf, conditionsQuery } from "../live/deviceConditions";
import { type DeviceEvent, type DeviceEvents, readDeviceEvents } from "../live/deviceEvents";
import { JobLink } from "./JobLink";
import { Empty, Failed, Loading } from "./states";
import { inWords } from "./tones";
import { UserText } from "./UserText";

const SHOWN = 20;

interface Line {
  key: string;
  at: number;
  told: React.ReactNode;
}

/** What happened to a device: who got it, who set it apart, when it was ill, which alerts fired, the last first. */
export function DeviceHistory({ device }: { device: Device }) {
  const client = useQueryClient();
  const key = ["device-events", device.uuid];
  const read = useQuery({
    queryKey: key,
    queryFn: ({ signal }) =>
      readDeviceEvents(client.getQueryData<DeviceEvents>(key), device.uuid, device.node, signal),
    refetchInterval: 30_000,
  });
  const conditions = useQuery(conditionsQuery);
  const alerts = useQuery(alertsQuery(true));
  const { refetch } = read;
  const now = `${device.state} ${device.holders.map((holder) => holder.job).join(" ")}`;
  // The live row of the device tells that something happened, and the journal what.
  useEffect(() => void refetch(), [now, refetch]);
  const lines = [
    ...(read.data?.events ?? []).map(lineOf),
    ...conditionsOf(conditions.data ?? [], device).map(conditionLine),
    ...(alerts.data?.alerts ?? [])
      .filter((alert) => alert.labels.uuid === device.uuid)
      .flatMap((alert): Line[] => [
        {
          key: `${alert.id} fired`,
          at: alert.fired_at,
          told: (
            <>
              alert <UserText text={alert.rule} />: <UserText text={alert.sentence} />
            </>
          ),
        },
        ...(alert.resolved_at == null
          ? []
          : [
              {
                key: `${alert.id} over`,
                at: alert.resolved_at,
                told: (
                  <>
                    alert <UserText text={alert.rule} /> is resolved
                  </>
                ),
              },
            ]),
      ]),
  ].sort((a, b) => b.at - a.at);
  if (read.error && !read.data) return <Failed error={read.error} retry={() => void refetch()} />;
  if (read.isPending) return <Loading what="the events" />;
  if (!lines.length) return <Empty title="No recent events" />;
  return (
    <ul className="plain in-text">
      {lines.slice(0, SHOWN).map((line) => (
        <li key={line.key}>
          <time className="quiet" title={momentInFull(line.at)}>
            {moment(line.at)}
          </time>{" "}
          {line.told}
        </li>
      ))}
    </ul>
  );
}

function conditionLine({ at, what, reason }: ConditionChange): Line {
  return {
    key: `${at} ${what}`,
    at,
    told: (
      <>
        {what === "well" ? "well again" : what}
        {reason && (
          <>
            : <UserText text={reason} />
          </>
        )}
      </>
    ),
  };
}

function lineOf(event: DeviceEvent, at: number): Line {
  return {
    key: `${event.id} ${event.what} ${event.job} ${at}`,
    at: event.at,
    told: (
      <>
        {inWords(event.what)}
        {event.job && (
          <>
            {event.what === "freed" ? " by job " : " to job "}
            <JobLink job={{ id: event.job }} />
          </>
        )}
        {event.share_milli !== null && event.share_milli < 1000 && ` (${share(event.share_milli)})`}
        {event.by && !event.by.startsWith("corral:") && (
          <span className="quiet">
            {" by "}
            <UserText text={event.by} />
          </span>
        )}
        {event.reason && (
          <>
            : <UserText text={event.reason} />
          </>
        )}
      </>
    ),
  };
}
