import { keepPreviousData, useQuery, type UseQueryResult } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { answered, api, type Schemas } from "../../api/client";
import { Facts } from "../../components/Panel";
import { Tag } from "../../components/Tag";
import { UserText } from "../../components/UserText";
import { momentInFull } from "../../format/times";
import { counted } from "../../format/units";
import { commandLine } from "../../jobs/commandLine";
import { onDevices } from "./onDevices";

const TYPING_MS = 350;
/** What is free changes without a word of this form. */
const AGAIN_MS = 5_000;

type DryRun = Schemas["DryRun"];

/** What would become of a submission, asked when nobody has typed for a moment, and again from time to time. */
export function useDryRun(submission: Schemas["Submission"] | null): UseQueryResult<DryRun> {
  const now = JSON.stringify(submission);
  const [asked, setAsked] = useState(now);
  useEffect(() => {
    const timer = window.setTimeout(() => setAsked(now), TYPING_MS);
    return () => window.clearTimeout(timer);
  }, [now]);
  const body = JSON.parse(asked) as Schemas["Submission"] | null;
  return useQuery({
    queryKey: ["dry-run", asked],
    queryFn: ({ signal }) => answered(api.POST("/api/v1/jobs/dry-run", { body: body ?? {}, signal })),
    // What was asked about a form that has changed since is of no use.
    enabled: body !== null && asked === now,
    refetchInterval: (query) => (query.state.error ? false : AGAIN_MS),
    placeholderData: keepPreviousData,
    gcTime: 10_000,
  });
}

export function Forecast({
  query,
  asked,
  elsewhere,
}: {
  query: UseQueryResult<DryRun>;
  asked: boolean;
  elsewhere: string | null;
}) {
  if (elsewhere)
    return (
      <p className="banner" data-kind="bad" role="alert">
        {elsewhere}
      </p>
    );
  const told = query.error || !asked ? undefined : query.data;
  return (
    <div role="status" className="forecast" data-old={query.isPlaceholderData || undefined}>
      {told ? (
        <Told dryRun={told} />
      ) : (
        <p className="quiet">
          {!asked
            ? "Enter a command or a script to see when it would start."
            : query.error
              ? "Correct the marked fields."
              : "Asking …"}
        </p>
      )}
    </div>
  );
}

function Told({ dryRun }: { dryRun: DryRun }) {
  const word = dryRun.starts_now ? "starts now" : dryRun.possible ? "would wait" : "cannot run here";
  const tone = dryRun.starts_now ? "good" : dryRun.possible ? "warn" : "bad";
  return (
    <>
      <p>
        <Tag word={word} tone={tone} />{" "}
        {dryRun.starts_now ? <>on {onDevices(dryRun)}</> : <UserText text={reasonOf(dryRun)} />}
      </p>
      <Facts
        facts={[
          ["jobs", dryRun.jobs > 1 ? `${counted(dryRun.jobs, "job")}; this is of the first` : null],
          [
            "it runs",
            dryRun.command.length ? <UserText key="runs" text={commandLine(dryRun.command)} /> : null,
          ],
          [
            dryRun.expected_start_is === "promise" ? "starts at the latest" : "expected start",
            dryRun.starts_now || dryRun.expected_start == null ? null : momentInFull(dryRun.expected_start),
          ],
          ["starts now with", dryRun.nearest?.text ? <code key="with">{dryRun.nearest.text}</code> : null],
        ]}
      />
      {dryRun.notes.map((note) => (
        <p className="quiet" key={note}>
          <UserText text={note} />
        </p>
      ))}
    </>
  );
}

function reasonOf(dryRun: DryRun): string {
  return dryRun.reason.replace(/^it (would wait: )?/, "");
}
