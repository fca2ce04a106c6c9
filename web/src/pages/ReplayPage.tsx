import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import {
  cancelReplay,
  isOver,
  type Replay,
  replayChoicesQuery,
  replayQuery,
  startReplay,
} from "../api/replayQueries";
import { Panel } from "../components/Panel";
import { Empty, Failed, Loading } from "../components/states";
import { momentInFull, serverNow } from "../format/times";
import { CONFIGURED, courseName, firstPolicies, periodOf, policiesOf } from "../pool/replays";
import { Chooser } from "./replay/Chooser";
import { Result } from "./replay/Result";
import "../styles/pool.css";
import "../styles/replay.css";

/** One's own past under other policies, side by side. */
export function ReplayPage() {
  const search = useSearch({ from: "/replay" });
  const navigate = useNavigate({ from: "/replay" });
  const chosen = policiesOf(search.policies);
  const choices = useQuery(replayChoicesQuery);
  const policies = chosen.length ? chosen : firstPolicies(choices.data?.configured ?? [CONFIGURED]);
  const shown = useQuery({ ...replayQuery(search.replay ?? ""), enabled: search.replay !== undefined });
  const start = useMutation({
    mutationFn: async () => {
      // Another of this page's would only keep the new one waiting.
      if (shown.data && !isOver(shown.data)) await cancelReplay(shown.data.id);
      return startReplay(policies, periodOf(search, serverNow()));
    },
    onSuccess: (started) =>
      navigate({ search: (old) => ({ ...old, replay: started.id, course: undefined }), resetScroll: false }),
  });
  return (
    <>
      <div className="page-head">
        <h1>Replay</h1>
      </div>
      <p className="quiet replay-intro">
        Past jobs run again in a simulation, under other policies, on the present GPUs, quotas and pools.
        Running jobs are not affected.
      </p>
      <Chooser
        choices={choices.data}
        policies={policies}
        search={search}
        onChange={(next) => void navigate({ search: (old) => ({ ...old, ...next }), resetScroll: false })}
        onStart={() => start.mutate()}
        starting={start.isPending}
        error={start.error ?? choices.error}
      />
      {search.replay === undefined ? (
        <Empty title="Nothing is compared yet">Choose a time and policies above, and start.</Empty>
      ) : shown.data ? (
        <Shown replay={shown.data} again={() => start.mutate()} onCancelled={() => void shown.refetch()} />
      ) : shown.error ? (
        <Failed error={shown.error} retry={() => start.mutate()} />
      ) : (
        <Loading what="the replay" />
      )}
    </>
  );
}

function Shown({
  replay,
  again,
  onCancelled,
}: {
  replay: Replay;
  again: () => void;
  onCancelled: () => void;
}) {
  if (!isOver(replay)) return <Running replay={replay} onCancelled={onCancelled} />;
  if (replay.result) return <Result replay={replay} result={replay.result} />;
  const title = replay.state === "cancelled" ? "Cancelled" : "The request failed";
  return (
    <div className="state" role="alert">
      <strong>{title}</strong>
      <span>{replay.error}</span>
      <button type="button" className="button" onClick={again}>
        Start again
      </button>
    </div>
  );
}

function Running({ replay, onCancelled }: { replay: Replay; onCancelled: () => void }) {
  const cancel = useMutation({ mutationFn: () => cancelReplay(replay.id), onSettled: onCancelled });
  const known = replay.jobs_total > 0;
  const names = replay.policies.map(courseName).join(", ");
  return (
    <Panel title={replay.state === "queued" ? "Waiting" : "Running"}>
      <p className="only-read-aloud" role="status">
        The replay is {replay.state}.
      </p>
      <div className="replay-progress">
        <progress
          aria-label="Jobs run again"
          max={known ? replay.jobs_total : undefined}
          value={known ? replay.jobs_done : undefined}
        />
        <span>
          {replay.state === "queued"
            ? `${replay.ahead} ${replay.ahead === 1 ? "goes" : "go"} first`
            : known
              ? `${replay.jobs_done.toLocaleString()} of ${replay.jobs_total.toLocaleString()} jobs`
              : "reading the journal"}
        </span>
        <button
          type="button"
          className="button"
          data-kind="danger"
          disabled={cancel.isPending}
          onClick={() => cancel.mutate()}
        >
          Cancel
        </button>
      </div>
      <p className="quiet">
        {names}, {momentInFull(replay.since)} to {momentInFull(replay.until)}. It runs while this page is
        open.
      </p>
      {cancel.error && <Failed error={cancel.error} />}
    </Panel>
  );
}
