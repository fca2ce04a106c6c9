/** What the pages read of how devices, nodes and jobs were over time. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import type { Compared } from "../pool/choices";
import { answered, api, type Schemas } from "./client";

/** How far back up to now. */
export const RANGES = ["30m", "1h", "6h", "12h", "24h", "2d", "7d"] as const;
/** From one moment to another, both in Unix seconds. */
export type Stretch = `${number}-${number}`;
export type Range = (typeof RANGES)[number] | Stretch;

/** The two moments of a stretch; null for a range up to now. */
export function momentsOf(range: Range): [fromS: number, toS: number] | null {
  const [, from, to] = /^(\d{1,10})-(\d{1,10})$/.exec(range) ?? [];
  return from && to ? [Number(from), Number(to)] : null;
}

/** A range as an address has it; undefined where it is none. */
export function readRange(value: unknown): Range | undefined {
  const known = RANGES.find((each) => each === value);
  if (known || typeof value !== "string") return known;
  const moments = momentsOf(value as Range);
  return moments && moments[0] < moments[1] ? (value as Stretch) : undefined;
}

const queryOf = (range: Range): { range: string } | { from: number; to: number } => {
  const moments = momentsOf(range);
  return moments ? { from: moments[0], to: moments[1] } : { range };
};

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
  const over = queryOf(range);
  const query = { ...over, series: [...series] };
  const querySerializer = () =>
    Object.entries({ ...over, series: series.join(",") })
      .map(([name, value]) => `${name}=${value}`)
      .join("&");
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
    // What is past stays as it is.
    refetchInterval: "from" in over ? false : range === "30m" || range === "1h" ? SOON_MS : SLOW_MS,
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
