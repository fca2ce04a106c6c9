import type { Device } from "../api/queries";

/** What a device is called where several are: its node, and its index or, of a slice, its profile. */
export function deviceName({
  node,
  index,
  mig_profile,
}: Pick<Device, "node" | "index" | "mig_profile">): string {
  return `${node ? `${node}:` : "GPU "}${mig_profile ?? index ?? "?"}`;
}
