/** What the pages about the pool let one choose, as addresses have it. */
import type { Range } from "../api/historyQueries";

export const COMPARED = ["nodes", "devices", "jobs"] as const;
export type Compared = (typeof COMPARED)[number];

export const REPORT_BY = ["user", "project", "queue", "namespace"] as const;
export type ReportBy = (typeof REPORT_BY)[number];

export const REPORT_RANGES = ["24h", "7d", "30d", "90d"] as const;
export type ReportRange = (typeof REPORT_RANGES)[number];

export const REPORT_RANGE_S: Record<ReportRange, number> = {
  "24h": 86_400,
  "7d": 604_800,
  "30d": 2_592_000,
  "90d": 7_776_000,
};

export const KPI_RANGES = ["1h", "6h", "12h", "24h", "2d", "7d"] as const satisfies readonly Range[];
export type KpiRange = (typeof KPI_RANGES)[number];
