/** The readings that have a chart each; `scale` makes the unit of the chart of that of the server. */
export interface Charted {
  series: string;
  title: string;
  unit: string;
  max?: number;
  scale?: number;
}

const UTILIZATION: Charted = { series: "utilization_pct", title: "Utilization", unit: "%", max: 100 };
const MEMORY: Charted = { series: "memory_used_mib", title: "Memory", unit: "GiB", scale: 1 / 1024 };
const BANDWIDTH: Charted = {
  series: "memory_bandwidth_pct",
  title: "Memory bandwidth",
  unit: "%",
  max: 100,
};
const TEMPERATURE: Charted = { series: "temperature_c", title: "Temperature", unit: "°C" };
const POWER: Charted = { series: "power_w", title: "Power", unit: "W" };
const CLOCK: Charted = { series: "sm_clock_mhz", title: "Clock", unit: "MHz" };

/** Of many devices beside each other. */
export const DEVICES_CHARTED: readonly Charted[] = [UTILIZATION, MEMORY, TEMPERATURE, POWER];
/** Of nodes, devices and jobs that are compared. */
export const COMPARED_CHARTED: readonly Charted[] = [UTILIZATION, MEMORY, POWER, TEMPERATURE, BANDWIDTH];
/** Of one device. */
export const DEVICE_CHARTED: readonly Charted[] = [UTILIZATION, MEMORY, BANDWIDTH, TEMPERATURE, POWER, CLOCK];
