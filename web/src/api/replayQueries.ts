/** The past run again under other policies: what can be asked for, asking for it, and asking after it. */
import { queryOptions } from "@tanstack/react-query";
import { answered, api, type Schemas } from "./client";

export type Replay = Schemas["Replay"];
export type ReplayResult = Schemas["ReplayResult"];
export type ReplayCourse = Schemas["ReplayCourse"];
export type ReplayedGroup = Schemas["ReplayedGroup"];
export type ReplayedJob = Schemas["ReplayedJob"];

const ASK_EVERY_MS = 1_000;

export const replayChoicesQuery = queryOptions({
  queryKey: ["replay-choices"],
  queryFn: ({ signal }) => answered(api.GET("/api/v1/replays", { signal })),
  staleTime: 60_000,
});

export function replayQuery(id: string) {
  return queryOptions({
    queryKey: ["replay", id],
    queryFn: ({ signal }) =>
      answered(api.GET("/api/v1/replays/{replay_id}", { params: { path: { replay_id: id } }, signal })),
    refetchInterval: ({ state }) => (state.data && isOver(state.data) ? false : ASK_EVERY_MS),
    // The server ends what nobody asks after.
    refetchIntervalInBackground: true,
    staleTime: Number.POSITIVE_INFINITY,
  });
}

export function startReplay(policies: readonly string[], period: { since: number; until?: number }) {
  return answered(api.POST("/api/v1/replays", { body: { policies: [...policies], ...period } }));
}

export function cancelReplay(id: string) {
  return answered(api.DELETE("/api/v1/replays/{replay_id}", { params: { path: { replay_id: id } } }));
}

export function isOver(replay: Replay): boolean {
  return replay.state !== "queued" && replay.state !== "running";
}
