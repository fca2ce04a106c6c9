import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { answered, api } from "../../api/client";
import { Confirm } from "../../components/Confirm";
import { UserText } from "../../components/UserText";
import { counted } from "../../format/units";

const VERBS = {
  cancel: {
    name: "Cancel",
    title: "Cancel",
    done: "cancelled",
    says: "They are stopped or leave the queue, and do not run again.",
  },
  hold: {
    name: "Hold",
    title: "Hold",
    done: "on hold",
    says: "Waiting jobs among them do not start until they are released.",
  },
  release: {
    name: "Release",
    title: "Release",
    done: "released",
    says: "Jobs on hold may start. Reservations among them end.",
  },
} as const;
type Verb = keyof typeof VERBS;
const TOLD = 3;

/** Cancels, holds or releases the chosen jobs, after a question. */
export function BulkActions({ chosen, onDone }: { chosen: readonly string[]; onDone: () => void }) {
  const [asked, setAsked] = useState<Verb | null>(null);
  const client = useQueryClient();
  const act = useMutation({
    mutationFn: (verb: Verb) => answered(api.POST(`/api/v1/jobs/${verb}`, { body: { ids: [...chosen] } })),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ["jobs"] });
      onDone();
    },
  });
  const jobs = counted(chosen.length, "job");
  return (
    <div className="fields bulk" role="group" aria-label="Chosen jobs">
      {chosen.length > 0 && <span>{jobs} chosen</span>}
      {chosen.length > 0 &&
        (Object.keys(VERBS) as Verb[]).map((verb) => (
          <button
            key={verb}
            type="button"
            className="button"
            data-kind={verb === "cancel" ? "danger" : undefined}
            disabled={act.isPending}
            onClick={() => setAsked(verb)}
          >
            {VERBS[verb].name}
          </button>
        ))}
      {act.error && (
        <span className="banner" data-kind="bad" role="alert">
          {act.error.message}
        </span>
      )}
      {act.data && act.variables && chosen.length === 0 && (
        <span className="quiet" role="status">
          {counted(act.data.ids.length, "job")} {VERBS[act.variables].done}
          {act.data.unchanged.length > 0 && `, ${act.data.unchanged.length} not: `}
          <UserText
            text={act.data.unchanged
              .slice(0, TOLD)
              .map((each) => each.reason)
              .join("; ")}
          />
        </span>
      )}
      {asked && (
        <Confirm
          title={`${VERBS[asked].title} ${jobs}?`}
          action={`${VERBS[asked].name} ${jobs}`}
          onClose={() => setAsked(null)}
          onConfirm={() => {
            setAsked(null);
            act.mutate(asked);
          }}
        >
          {VERBS[asked].says}
        </Confirm>
      )}
    </div>
  );
}
