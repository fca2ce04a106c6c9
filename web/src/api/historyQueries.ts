/** What the pages read of how devices, nodes and jobs were over time. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import type { Compared } from "../pool/choices";
import { answered, api, type Schemas } from "./client";

export const RANGES = ["30m", "1h", "6h", "12h", "24h", "2d", "7d"] as const;
export type Range = (typeof RANGES)[number];

export interface History {
  from: number;
  to: number;
  step_s: number;
  series: Record<string, readonly Schemas["HistoryPoint"][]>;
}

const SOON_MS = 10_000;
const SLOW_MS = 60_000;

/** What one node, device or job was like over a range. */
export function historyQuery(what: Compared, id: string, range: Range, series: readonly string[]) {
  const query = { range, series: [...series] };
  const querySerializer = () => `range=${range}&series=${series.join(",")}`;
  return queryOptions({
    queryKey: ["history", what, id, range, series],
    queryFn: ({ signal }): Promise<History> => {
      if (what === "devices")
        return answered(
          api.GET("/api/v1/history/devices/{uuid}", {
            params: { path: { uuid: id }, query },
            querySerializer,
            signal,
          }),
        );
      if (what === "jobs")
        return answered(
          api.GET("/api/v1/history/jobs/{job_id}", {
            params: { path: { job_id: id }, query },
            querySerializer,
            signal,
          }),
        );
      return answered(
        api.GET("/api/v1/history/nodes/{name}", {
          params: { path: { name: id }, query },
          querySerializer,
          signal,
        }),
      );
    },
    refetchInterval: range === "30m" || range === "1h" ? SOON_MS : SLOW_MS,
    structuralSharing: false,
    placeholderData: keepPreviousData,
  });
}

/** What each of a job's GPUs was like from its last start on; `live` while that grows. */
export function jobGpusQuery(id: string, series: readonly string[], live: boolean) {
  return queryOptions({
    queryKey: ["history", "job-gpus", id],
    queryFn: ({ signal }) =>
      answered(
        api.GET("/api/v1/history/jobs/{job_id}/gpus", {
          params: { path: { job_id: id }, query: { series: [...series] } },
          querySerializer: () => `series=${series.join(",")}`,
          signal,
        }),
      ),
    refetchInterval: live ? SOON_MS : false,
    structuralSharing: false,
  });
}
