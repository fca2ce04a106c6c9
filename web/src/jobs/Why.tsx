import { useQuery } from "@tanstack/react-query";
import { whyQuery } from "../api/queries";
import { JobLink } from "../components/JobLink";
import { Facts, Panel } from "../components/Panel";
import { UserText } from "../components/UserText";
import { duration, momentInFull } from "../format/times";

const TITLES: Record<string, string> = {
  PENDING: "Why it waits",
  STARTING: "State",
  RUNNING: "State",
  STOPPING: "State",
};

/** Why a job waits, its place, when it starts, and what would start now; after its end how it waited. */
export function Why({ id }: { id: string }) {
  const why = useQuery(whyQuery(id));
  if (!why.data) return null;
  const told = why.data;
  return (
    <Panel title={TITLES[told.phase] ?? "How it ended"}>
      <p style={{ margin: "0 0 8px", overflowWrap: "anywhere" }}>
        <UserText text={told.reason} />
      </p>
      <Facts
        facts={[
          ["what to do", told.diagnosis],
          ["place in the queue", told.position],
          [
            told.expected_start_is === "promise" ? "starts at the latest" : "expected start",
            told.expected_start == null ? null : momentInFull(told.expected_start),
          ],
          ["starts now with", told.starts_now_with ? <code key="with">{told.starts_now_with}</code> : null],
          [
            "waited",
            told.waited.length
              ? told.waited.map((part) => `${part.reason} ${duration(part.seconds)}`).join(", ")
              : null,
          ],
          [
            "makes room",
            told.makes_room.length
              ? told.makes_room.map((at) => <JobLink key={at} job={{ id: at }} />)
              : null,
          ],
          ["nothing starts now", told.obstacle],
          ["holds", told.holds?.replace(/^holds /, "")],
        ]}
      />
    </Panel>
  );
}
