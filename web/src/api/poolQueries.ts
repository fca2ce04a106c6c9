/** What the pages about the pool read of the server: alerts, shares, usage and key figures. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { serverNow } from "../format/times";
import type { ReportBy } from "../pool/choices";
import { answered, api, type Schemas } from "./client";
import type { Range } from "./historyQueries";

export type MappedDevice = Schemas["MappedDevice"];
export type Report = Schemas["Report"];
export type ReportRow = Schemas["ReportRow"];
export type Waste = Schemas["Waste"];
export type Kpis = Schemas["Kpis"];
export type Kpi = Schemas["Kpi"];

const SLOW_MS = 60_000;

export const silencesQuery = queryOptions({
  queryKey: ["silences"],
  queryFn: async ({ signal }) => [...(await answered(api.GET("/api/v1/silences", { signal }))).silences],
  refetchInterval: SLOW_MS,
});

export const allocMapQuery = queryOptions({
  queryKey: ["alloc-map"],
  queryFn: async ({ signal }) => [...(await answered(api.GET("/api/v1/alloc-map", { signal }))).devices],
  refetchInterval: SLOW_MS,
});

/** What was granted in the last `rangeS` seconds. */
export function reportQuery(by: ReportBy, rangeS: number) {
  return queryOptions({
    queryKey: ["report", by, rangeS],
    queryFn: ({ signal }) => {
      const until = Math.floor(serverNow());
      return answered(
        api.GET("/api/v1/report", { params: { query: { by: [by], since: until - rangeS, until } }, signal }),
      );
    },
    refetchInterval: SLOW_MS,
    placeholderData: keepPreviousData,
  });
}

export function wasteQuery(rangeS: number) {
  return queryOptions({
    queryKey: ["waste", rangeS],
    queryFn: ({ signal }) => {
      const until = Math.floor(serverNow());
      return answered(
        api.GET("/api/v1/waste", { params: { query: { since: until - rangeS, until } }, signal }),
      );
    },
    refetchInterval: SLOW_MS,
    placeholderData: keepPreviousData,
  });
}

export const fairSharesQuery = queryOptions({
  queryKey: ["fair-shares"],
  queryFn: ({ signal }) => answered(api.GET("/api/v1/fair-shares", { signal })),
  refetchInterval: SLOW_MS,
});

export function kpisQuery(range: Range) {
  return queryOptions({
    queryKey: ["kpis", range],
    queryFn: ({ signal }) => answered(api.GET("/api/v1/kpis", { params: { query: { range } }, signal })),
    refetchInterval: SLOW_MS,
    placeholderData: keepPreviousData,
  });
}
