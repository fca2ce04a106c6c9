/** What the pages read of the server. Keys begin with the kind of row, so that events find what to renew. */
import type { Means } from "../pool/means";
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
  project?: string;
  namespace?: string;
  means?: Means;
  limit?: number;
  /** Such as "-started" for the latest first. */
  sort?: string;
  /** With the expected starts of those that wait, as far as the server foresees them. */
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
      // A server of this machine, or behind a tunnel, answers also where the browser takes itself for offline.
      mutations: { networkMode: "always" },
      queries: {
        networkMode: "always",
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

/** What only a restart of the server changes. */
export const resourceNamesQuery = queryOptions({
  queryKey: ["resource-names"],
  queryFn: async ({ signal }) => [
    ...(await answered(api.GET("/api/v1/resource-names", { signal }))).resources,
  ],
  staleTime: Number.POSITIVE_INFINITY,
});

export function jobsQuery(filter: JobFilter) {
  const { user, phase, queue, project, namespace, ...rest } = filter;
  const query = {
    ...rest,
    ...(user ? { user: user.split(",") } : {}),
    ...(phase ? { phase: phase.split(",") as Phase[] } : {}),
    ...(queue ? { queue: queue.split(",") } : {}),
    ...(project ? { project: project.split(",") } : {}),
    ...(namespace ? { namespace: namespace.split(",") } : {}),
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
    refetchInterval: ({ state }) => (state.data?.ended_at == null ? 10_000 : false),
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
