/** What happened to a device, from the server's journal. */
import type { LiveEvent } from "./events";

export interface DeviceEvent {
  id: number;
  at: number;
  what: string;
  by: string;
  job: string | null;
  share_milli: number | null;
  reason: string | null;
}

export interface DeviceEvents {
  /** How far the journal has been read. */
  last: number;
  events: DeviceEvent[];
  /** Jobs that have the device as far as it has been read: their end tells only the job. */
  holders: string[];
}

type Told = LiveEvent & { by?: string };

/** So much of the journal is read when nothing has been read yet. */
const REACH = 20_000;
const MOST = 100;
/** The stream says nothing for so long when it has told all that there is. */
const QUIET_MS = 400;
const TELL_APART = ["allocated", "freed", "cordoned", "uncordoned", "health"];
const OF_NODES = ["node_cordoned", "node_draining", "node_uncordoned"];

/** `known` with what `event` says of the device, if it is about it. */
export function withEvent(known: DeviceEvents, event: Told, uuid: string, node: string | null): DeviceEvents {
  if (event.id === null) return known;
  if (event.what === "exchanged") return withEvent(known, exchange(event, known.holders, uuid), uuid, node);
  let { events, holders } = known;
  for (const row of event.rows) {
    const job = typeof row.job === "string" ? row.job : null;
    const ofNode = OF_NODES.includes(event.what) && node !== null && row.node === node;
    const freed = event.what === "freed" && job !== null && holders.includes(job);
    if (!ofNode && !freed && !(TELL_APART.includes(event.what) && row.uuid === uuid)) continue;
    if (event.what === "allocated" && job !== null) holders = [...holders, job];
    if (freed) holders = holders.filter((holder) => holder !== job);
    const told: DeviceEvent = {
      id: event.id,
      at: event.at,
      what: typeof row.health === "string" ? row.health : event.what,
      by: event.by ?? "",
      job,
      share_milli: typeof row.share_milli === "number" ? row.share_milli : null,
      reason: typeof row.reason === "string" && row.reason !== "" ? row.reason : null,
    };
    events = [told, ...events].slice(0, MOST);
  }
  return { last: Math.max(known.last, event.id), events, holders };
}

/** A job has other devices in place of all that it had: it got this one, gave it up, or neither. */
function exchange(event: Told, holders: string[], uuid: string): Told {
  const job = event.rows[0]?.job;
  const had = typeof job === "string" && holders.includes(job);
  const has = event.rows.filter((row) => row.uuid === uuid);
  if (had) return { ...event, what: "freed", rows: has.length > 0 ? [] : [{ job }] };
  return { ...event, what: "allocated", rows: has };
}

/** Reads on from `known`; closes the stream when it has told what there is, for a browser has few of them. */
export async function readDeviceEvents(
  known: DeviceEvents | undefined,
  uuid: string,
  node: string | null,
  signal: AbortSignal,
): Promise<DeviceEvents> {
  const end = await follow("", signal, () => undefined);
  let found = known ?? { last: Math.max(0, end - REACH), events: [], holders: [] };
  if (found.last >= end) return found;
  await follow(`&after=${found.last}`, signal, (event) => {
    found = withEvent(found, event, uuid, node);
  });
  return { ...found, last: Math.max(found.last, end) };
}

/** Hands over what a stream tells until it is quiet; the id that it began at. */
function follow(after: string, signal: AbortSignal, take: (event: Told) => void): Promise<number> {
  return new Promise((resolve, reject) => {
    const source = new EventSource(`/api/v1/events?topics=devices${after}`);
    let begun = 0;
    let timer: number | undefined;
    const finish = () => {
      window.clearTimeout(timer);
      source.close();
      resolve(begun);
    };
    const heard = (message: MessageEvent<string>) => {
      const event = JSON.parse(message.data) as Told;
      if (event.topic === "hello") {
        begun = event.id ?? 0;
        // Without a place to begin at there is nothing to wait for.
        if (after === "") return finish();
      } else take(event);
      window.clearTimeout(timer);
      timer = window.setTimeout(finish, QUIET_MS);
    };
    for (const name of ["hello", "devices", "ping"]) source.addEventListener(name, heard as EventListener);
    source.onerror = () => {
      window.clearTimeout(timer);
      source.close();
      reject(new Error("The server did not send the events. Try again."));
    };
    signal.addEventListener("abort", () => {
      window.clearTimeout(timer);
      source.close();
      reject(new DOMException("left", "AbortError"));
    });
  });
}
