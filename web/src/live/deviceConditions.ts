/** When devices fell ill and were well again, since the pages were opened: it is told once, and is in no journal. */
import { queryOptions, type SkipToken, skipToken } from "@tanstack/react-query";
import type { Device } from "../api/queries";
import type { LiveEvent } from "./events";

const MOST = 500;
const ILL = ["unhealthy", "unreadable"];

export interface ConditionChange {
  uuid: string;
  at: number;
  what: string;
  reason: string | null;
}

/** Filled by events, the last first. */
export const conditionsQuery = queryOptions({
  queryKey: ["device-conditions"],
  queryFn: skipToken as SkipToken | (() => readonly ConditionChange[]),
  gcTime: Number.POSITIVE_INFINITY,
});

/** `told` with what an event of devices says that has no place in the journal. */
export function withCondition(
  told: readonly ConditionChange[],
  event: LiveEvent,
): readonly ConditionChange[] {
  const fresh = event.rows.map((row) => ({
    uuid: String(row.uuid),
    at: event.at,
    what: event.what,
    reason: typeof row.reason === "string" ? row.reason : null,
  }));
  return [...fresh, ...told].slice(0, MOST);
}

/** What is known of one device: what was told, and where that does not have it, since when it is ill as it is. */
export function conditionsOf(
  told: readonly ConditionChange[],
  device: Pick<Device, "uuid" | "state" | "state_reason" | "state_since">,
): readonly ConditionChange[] {
  const own = told.filter((change) => change.uuid === device.uuid);
  const { uuid, state, state_reason: reason, state_since: at } = device;
  if (!ILL.includes(state) || at == null || own[0]?.what === state) return own;
  return [{ uuid, at, what: state, reason: reason ?? null }, ...own];
}
