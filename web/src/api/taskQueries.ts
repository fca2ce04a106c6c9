/** Tasks of the autotuner and their experiments. Keys begin with the kind of row, so that events find what to renew. */
import { type QueryClient, queryOptions } from "@tanstack/react-query";
import { answered, api, type Schemas } from "./client";

export type Task = Schemas["TaskRow"];
export type TaskDetail = Schemas["TaskDetail"];
export type Experiment = Schemas["ExperimentSummary"];
export type ExperimentDetail = Schemas["ExperimentRow"];
export type Findings = Schemas["TaskFindings"];
export type BestOnModel = Schemas["BestOnModel"];
export type Estimate = Schemas["TaskEstimate"];
export type TuningSpec = Schemas["TuningSpec"];

const PAGE = 500;
/** What no event tells: sums of experiments, and how long something has taken. */
const SLOW_MS = 30_000;

export const presetsQuery = queryOptions({
  queryKey: ["presets"],
  queryFn: ({ signal }) => answered(api.GET("/api/presets/", { signal })),
  staleTime: Number.POSITIVE_INFINITY,
});

export const tasksQuery = queryOptions({
  queryKey: ["tasks"],
  queryFn: async ({ signal }) => [...(await answered(api.GET("/api/v1/tasks", { signal }))).tasks],
  refetchInterval: SLOW_MS,
});

export function taskQuery(id: string) {
  return queryOptions({
    queryKey: ["task", id],
    queryFn: ({ signal }) =>
      answered(api.GET("/api/v1/tasks/{task_id}", { params: { path: { task_id: id } }, signal })),
    refetchInterval: SLOW_MS,
  });
}

/** All experiments of a task by number, a page at a time: of many the first are shown while others come. */
export function experimentsQuery(id: string, client: QueryClient) {
  const queryKey = ["experiments", id];
  return queryOptions({
    queryKey,
    queryFn: async ({ signal }): Promise<Experiment[]> => {
      const before = client.getQueryData(queryKey) !== undefined;
      let found: Experiment[] = [];
      for (;;) {
        const after = found.at(-1)?.experiment_id ?? 0;
        const page = await answered(
          api.GET("/api/v1/tasks/{task_id}/experiments", {
            params: { path: { task_id: id }, query: { after, limit: PAGE } },
            signal,
          }),
        );
        found = [...found, ...page.experiments];
        if (page.experiments.length < PAGE) return found;
        if (!before) client.setQueryData(queryKey, found);
      }
    },
    // Events bring what is new. To compare 10,000 rows with those before takes longer than to draw the few in sight.
    staleTime: 60_000,
    structuralSharing: false,
  });
}

export function experimentQuery(id: string) {
  return queryOptions({
    queryKey: ["experiment", id],
    queryFn: ({ signal }) =>
      answered(
        api.GET("/api/v1/experiments/{experiment_id}", { params: { path: { experiment_id: id } }, signal }),
      ),
    staleTime: 5_000,
  });
}

export function findingsQuery(id: string) {
  return queryOptions({
    queryKey: ["findings", id],
    queryFn: ({ signal }) =>
      answered(api.GET("/api/v1/tasks/{task_id}/findings", { params: { path: { task_id: id } }, signal })),
    // Those of a long task may have been of a moment ago.
    refetchInterval: SLOW_MS,
    staleTime: 5_000,
  });
}
