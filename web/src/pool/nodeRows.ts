/** What the devices of nodes come to, of all or of those that a filter leaves. */
import type { Device, Job, Node } from "../api/queries";
import { isOfMeans, type MeansChoice } from "./means";

export interface DeviceFilter {
  node?: string;
  means?: MeansChoice;
  user?: string;
  project?: string;
}

export interface NodeSums {
  node: Node;
  devices: Device[];
  free: number;
  usedMib: number | null;
  totalMib: number | null;
  availableMib: number | null;
  meanPercent: number | null;
}

/** Devices that the filter leaves. The project of a device's jobs is in `jobs`, for the device names them only. */
export function chosenDevices(
  devices: readonly Device[],
  jobs: readonly Job[],
  filter: DeviceFilter,
): Device[] {
  const projects = new Map(jobs.map((job) => [job.id, job.project]));
  return devices.filter(
    (device) =>
      (!filter.node || device.node === filter.node) &&
      (!filter.means || isOfMeans(device.held_as, filter.means)) &&
      (!filter.user || device.holders.some((holder) => holder.user === filter.user)) &&
      (!filter.project || device.holders.some((holder) => projects.get(holder.job) === filter.project)),
  );
}

/** A row for each node: every node without a filter, else those with a device that it leaves. */
export function nodeRows(
  nodes: readonly Node[],
  devices: readonly Device[],
  filter: DeviceFilter,
): NodeSums[] {
  const ofNode = Map.groupBy(devices, (device) => device.node ?? "");
  const narrowed = Boolean(filter.means ?? filter.user ?? filter.project);
  return nodes
    .filter((node) => !filter.node || node.name === filter.node)
    .map((node) => sumsOf(node, ofNode.get(node.name) ?? []))
    .filter((row) => !narrowed || row.devices.length > 0);
}

export function sumsOf(node: Node, own: Device[]): NodeSums {
  // A slice's memory and use are in the device that it is cut from, where that is among them.
  const known = new Set(own.map((device) => device.uuid));
  const whole = own.filter((device) => !device.parent || !known.has(device.parent));
  const used = whole.map((device) => device.utilization_pct).filter((value) => value != null);
  const usedMib = sumOf(whole.map((device) => device.memory_used_mib));
  const totalMib = sumOf(whole.map((device) => device.memory_total_mib));
  return {
    node,
    devices: own,
    free: own.filter((device) => device.state === "free").length,
    usedMib,
    totalMib,
    availableMib: usedMib == null || totalMib == null ? null : totalMib - usedMib,
    meanPercent: used.length ? used.reduce((sum, value) => sum + value, 0) / used.length : null,
  };
}

/** Null where one of them is not known: a sum without it would be too small. */
function sumOf(values: (number | null)[]): number | null {
  return values.length && values.every((value) => value != null)
    ? values.reduce<number>((sum, value) => sum + (value ?? 0), 0)
    : null;
}
