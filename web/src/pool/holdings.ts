/** Who holds what of the devices: each by itself, and summed by user where they are many. Pure. */
import type { Device, Job } from "../api/queries";

interface Named {
  id: string;
  name?: string;
}

/** One holder of a device. What Corral did not give has no `job`, and its user may not be known. */
export interface Holder {
  user: string | null;
  job: Named | null;
  /** What has it outside Corral, in words, null of a job. */
  outside: string | null;
  milli: number;
  memoryMib: number | null;
  since: number | null;
}

export interface Held {
  device: Device;
  holders: Holder[];
}

/** What one user holds of all devices; outside Corral apart from what Corral gave. */
export interface Holding {
  key: string;
  user: string | null;
  outside: boolean;
  devices: number;
  milli: number;
  jobs: Named[];
  since: number | null;
}

/** The devices that can be held, each with who has it. Of one that is cut into slices it is these. */
export function heldDevices(devices: readonly Device[], jobs: readonly Job[]): Held[] {
  const cut = new Set(devices.map((device) => device.parent));
  const known = new Map(jobs.map((job) => [job.id, job]));
  return devices
    .filter((device) => !cut.has(device.uuid))
    .map((device) => ({ device, holders: [...given(device, known), ...strangers(device)] }));
}

function given(device: Device, known: ReadonlyMap<string, Job>): Holder[] {
  return device.holders.map((holder) => {
    const job = known.get(holder.job);
    return {
      user: holder.user,
      job: { id: holder.job, ...(job?.name ? { name: job.name } : {}) },
      outside: null,
      milli: holder.share_milli,
      memoryMib: holder.memory_mib ?? null,
      since: job?.started_at ?? null,
    };
  });
}

function strangers(device: Device): Holder[] {
  const since = device.since ?? null;
  const processes = device.processes
    .filter((process) => process.job == null)
    .map((process) => ({
      user: process.user ?? null,
      job: null,
      outside: process.container
        ? `container ${process.container.name} (${process.container.image})`
        : `${process.command ?? "a process"}, pid ${process.pid}`,
      milli: 1000,
      memoryMib: process.memory_mib ?? null,
      since,
    }));
  const { pod } = device;
  const parts = (device.parts ?? []).map((part) => ({
    user: null,
    job: null,
    outside: podWords(part.pod),
    milli: part.share_milli,
    memoryMib: part.memory_mib ?? null,
    since,
  }));
  if (!pod) return [...parts, ...processes];
  return [
    { user: null, job: null, outside: podWords(pod), milli: 1000, memoryMib: null, since },
    ...parts,
    ...processes,
  ];
}

function podWords(pod: { namespace: string; name: string; owner?: string | null }): string {
  return `pod ${pod.namespace}/${pod.name}${pod.owner ? ` (${pod.owner})` : ""}`;
}

/** By user, who holds most first; what nobody is known for comes last. */
export function holdingsByUser(held: readonly Held[]): Holding[] {
  const found = new Map<string, Omit<Holding, "jobs"> & { uuids: Set<string>; jobs: Map<string, Named> }>();
  for (const { device, holders } of held) {
    for (const { user, job, milli, since } of holders) {
      const key = `${job ? "job" : "outside"} ${user ?? ""}`;
      const known = found.get(key) ?? {
        key,
        user,
        outside: job === null,
        devices: 0,
        milli: 0,
        jobs: new Map<string, Named>(),
        since: null,
        uuids: new Set<string>(),
      };
      found.set(key, known);
      if (!known.outside || !known.uuids.has(device.uuid)) known.milli += milli;
      known.uuids.add(device.uuid);
      if (job) known.jobs.set(job.id, job);
      if (since !== null) known.since = Math.min(known.since ?? since, since);
    }
  }
  return [...found.values()]
    .map(({ uuids, jobs, ...holding }) => ({ ...holding, devices: uuids.size, jobs: [...jobs.values()] }))
    .sort((a, b) => Number(a.outside) - Number(b.outside) || b.milli - a.milli || a.key.localeCompare(b.key));
}
