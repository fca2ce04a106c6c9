/** What the pages read of the server. Keys begin with the kind of row, so that events find what to renew. */
import {
  keepPreviousData,
  MutationCache,
  QueryCache,
  QueryClient,
  queryOptions,
} from "@tanstack/react-query";
import { ApiError, answered, api, type Schemas } from "./client";

export type Device = Schemas["DeviceRow"];
export type Job = Schemas["JobRow"];
export type JobDetail = Schemas["JobDetail"];
export type Explanation = Schemas["Explanation"];
export type Node = Schemas["NodeRow"];
export type Queue = Schemas["QueueRow"];
export type Session = Schemas["PageSession"];
export type Phase = Schemas["Phase"];
export type Alert = Schemas["AlertRow"];
export type Silence = Schemas["SilenceRow"];

export interface JobFilter {
  all?: boolean;
  user?: string;
  phase?: string;
  name?: string;
  queue?: string;
  limit?: number;
  /** Such as "-started" for the latest first. */
  sort?: string;
  /** With the expected starts of all that wait, which the server has to foresee: so of some hundreds at most. */
  starts?: boolean;
}

export function makeQueryClient(): QueryClient {
  // Whatever is refused for want of a session, the sign-in is shown in its place.
  const onError = (error: Error) => {
    const had = client.getQueryData(sessionQuery.queryKey) !== undefined;
    if (had && error instanceof ApiError && error.status === 401)
      void client.invalidateQueries({ queryKey: sessionQuery.queryKey }, { cancelRefetch: false });
  };
  const client = new QueryClient({
    queryCache: new QueryCache({
      onError: (error, query) => (query.queryKey[0] === "session" ? undefined : onError(error)),
    }),
    mutationCache: new MutationCache({ onError }),
    defaultOptions: {
      queries: {
        // Events say what is new; this is for what they do not tell.
        staleTime: 5_000,
        refetchOnWindowFocus: true,
        retry: (count, error) => !(error instanceof ApiError && error.status < 500) && count < 3,
      },
    },
  });
  return client;
}

export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: ({ signal }) => answered(api.GET("/api/v1/session", { signal })),
  staleTime: Number.POSITIVE_INFINITY,
});

export const serverQuery = queryOptions({
  queryKey: ["server"],
  queryFn: ({ signal }) => answered(api.GET("/api/v1/server", { signal })),
  refetchInterval: 60_000,
});

export const devicesQuery = queryOptions({
  queryKey: ["devices"],
  queryFn: async ({ signal }) => [...(await answered(api.GET("/api/v1/devices", { signal }))).devices],
  refetchInterval: 30_000,
});

export const nodesQuery = queryOptions({
  queryKey: ["nodes"],
  queryFn: async ({ signal }) => [...(await answered(api.GET("/api/v1/nodes", { signal }))).nodes],
  refetchInterval: 30_000,
});

/** The alerts that fire; with `over` also the last that are over. */
export function alertsQuery(over = false) {
  return queryOptions({
    queryKey: ["alerts", over],
    queryFn: ({ signal }) =>
      answered(api.GET("/api/v1/alerts", { params: { query: { history: over } }, signal })),
    refetchInterval: 60_000,
  });
}

export const queuesQuery = queryOptions({
  queryKey: ["queues"],
  queryFn: async ({ signal }) => [...(await answered(api.GET("/api/v1/queues", { signal }))).queues],
  refetchInterval: 30_000,
});

export function jobsQuery(filter: JobFilter) {
  const { user, phase, queue, ...rest } = filter;
  const query = {
    ...rest,
    ...(user ? { user: user.split(",") } : {}),
    ...(phase ? { phase: phase.split(",") as Phase[] } : {}),
    ...(queue ? { queue: queue.split(",") } : {}),
  };
  return queryOptions({
    queryKey: ["jobs", filter],
    queryFn: async ({ signal }) => [
      ...(
        await answered(
          api.GET("/api/v1/jobs", {
            params: { query },
            // One parameter, with commas, as the command line has it.
            querySerializer: (values) =>
              new URLSearchParams(
                Object.entries(values).flatMap(([key, value]) =>
                  value === undefined || value === "" ? [] : [[key, String(value)] as [string, string]],
                ),
              ).toString(),
            signal,
          }),
        )
      ).jobs,
    ],
    placeholderData: keepPreviousData,
    // To compare 10,000 rows with those before takes longer than to draw the few in sight.
    structuralSharing: false,
  });
}

export function jobQuery(id: string) {
  return queryOptions({
    queryKey: ["job", id],
    queryFn: ({ signal }) =>
      answered(api.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } }, signal })),
    // What is measured of one that runs is in no event.
    refetchInterval: ({ state }) => (state.data?.phase === "RUNNING" ? 10_000 : false),
  });
}

export function whyQuery(id: string) {
  return queryOptions({
    queryKey: ["why", id],
    queryFn: ({ signal }) =>
      answered(api.GET("/api/v1/jobs/{job_id}/why", { params: { path: { job_id: id } }, signal })),
    refetchInterval: 10_000,
  });
}

export const RANGES = ["30m", "1h", "6h", "12h", "24h", "2d", "7d"] as const;
export type Range = (typeof RANGES)[number];

export function deviceHistoryQuery(uuid: string, range: Range, series: readonly string[]) {
  return queryOptions({
    queryKey: ["history", "device", uuid, range, series],
    queryFn: ({ signal }) =>
      answered(
        api.GET("/api/v1/history/devices/{uuid}", {
          params: { path: { uuid }, query: { range, series: [...series] } },
          querySerializer: () => `range=${range}&series=${series.join(",")}`,
          signal,
        }),
      ),
    refetchInterval: range === "30m" || range === "1h" ? 10_000 : 60_000,
    placeholderData: keepPreviousData,
  });
}

/** What a job's GPUs were like from its last start on; `live` while that grows. */
export function jobHistoryQuery(id: string, live: boolean) {
  return queryOptions({
    queryKey: ["history", "job", id],
    queryFn: ({ signal }) =>
      answered(api.GET("/api/v1/history/jobs/{job_id}", { params: { path: { job_id: id } }, signal })),
    refetchInterval: live ? 10_000 : false,
  });
}
