import type { Schemas } from "../../api/client";
import { counted, memory, share, shortModel } from "../../format/units";

/** The devices of a dry run as the command line names them: "2 GPUs: gpu-01:0, gpu-01:1 (A100), 0.5 with 40G". */
export function onDevices(dryRun: Pick<Schemas["DryRun"], "devices" | "grants">): string {
  if (!dryRun.devices.length) return "CPUs only";
  const named = dryRun.devices.map((device) =>
    device.node ? `${device.node}:${device.index ?? "?"}` : String(device.index ?? "?"),
  );
  const models = [...new Set(dryRun.devices.map((device) => shortModel(device.name)))];
  const parts = dryRun.grants
    .filter((grant) => grant.share_milli < 1000)
    .map((grant) => `, ${share(grant.share_milli)} with ${memory(grant.memory_mib)}`);
  return `${counted(named.length, "GPU")}: ${named.join(", ")} (${models.join(", ")})${parts.join("")}`;
}
