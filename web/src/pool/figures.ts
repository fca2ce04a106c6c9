/** Quotas and key figures in words. */
import type { Schemas } from "../api/client";
import type { Kpi } from "../api/poolQueries";
import { duration } from "../format/times";
import { counted, memory, share, UNKNOWN } from "../format/units";

type Quota = Schemas["Quota"];

/** GPUs at a time; behind the + what may be borrowed. */
export function quotaOf(quota: Quota): string {
  if (quota.share_milli == null) return UNKNOWN;
  return share(quota.share_milli) + (quota.borrow_milli ? ` +${share(quota.borrow_milli)}` : "");
}

export function otherLimits(quota: Quota): string[] {
  const limits: string[] = [];
  if (quota.running != null) limits.push(`${counted(quota.running, "job")} running`);
  if (quota.waiting != null) limits.push(`${quota.waiting} waiting`);
  if (quota.devices != null) limits.push(`${counted(quota.devices, "GPU")} touched`);
  if (quota.memory_mib != null) limits.push(`${memory(quota.memory_mib)} of GPU memory`);
  if (quota.gpu_hours != null && quota.period_s != null)
    limits.push(`${quota.gpu_hours} GPU-hours in ${duration(quota.period_s)}`);
  return limits;
}

/** A key figure with its unit; seconds as a duration. */
export function kpiValue({ value, unit }: Kpi): string {
  if (value == null) return UNKNOWN;
  if (unit === "s") return value < 10 ? `${value.toFixed(1)} s` : duration(value);
  const digits = Number.isInteger(value) ? 0 : 1;
  return `${value.toFixed(digits)} ${unit === "C" ? "°C" : unit}`;
}

/** "gpu_utilization" as a person writes it. */
export function kpiName(name: string): string {
  const words = name.replaceAll("_", " ").replace(/^gpu\b/, "GPU");
  return words.charAt(0).toUpperCase() + words.slice(1);
}
