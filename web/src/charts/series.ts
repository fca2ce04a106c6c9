/** The readings of nodes, devices and jobs that have a chart each. */
export const COMPARED_CHARTS = [
  { series: "utilization_pct", title: "Utilisation", unit: "%", max: 100, scale: 1 },
  { series: "memory_used_mib", title: "Memory", unit: "GiB", max: undefined, scale: 1 / 1024 },
  { series: "power_w", title: "Power", unit: "W", max: undefined, scale: 1 },
  { series: "temperature_c", title: "Temperature", unit: "°C", max: undefined, scale: 1 },
  { series: "memory_bandwidth_pct", title: "Memory bandwidth", unit: "%", max: 100, scale: 1 },
] as const;

export const COMPARED_SERIES: readonly string[] = COMPARED_CHARTS.map((each) => each.series);
