import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { mayAdminister } from "../access/rights";
import { answered, api } from "../api/client";
import { sessionQuery } from "../api/queries";
import { UserText } from "./UserText";

type Verb = "cordon" | "drain" | "uncordon";

/** What is set apart: nothing new starts on it. */
export type Target = { kind: "node"; name: string } | { kind: "device"; uuid: string; name: string };

const ASKED: Record<"cordon" | "drain", { title: string; says: string }> = {
  cordon: { title: "Cordon", says: "No further job starts on it. Running jobs go on." },
  drain: {
    title: "Drain",
    says: "No further job starts on it. Jobs that still run at the deadline go back to their queue.",
  },
};

/** For administrators: sets a node or a device apart, and gives it back. */
export function Cordon({ target, state }: { target: Target; state: string }) {
  const session = useQuery(sessionQuery);
  const client = useQueryClient();
  const [asked, setAsked] = useState<"cordon" | "drain" | null>(null);
  const act = useMutation({
    mutationFn: ({ verb, reason = "", deadlineS }: { verb: Verb; reason?: string; deadlineS?: number }) =>
      request(target, verb, reason, deadlineS ?? null),
    onSettled: async () => {
      await client.invalidateQueries({ queryKey: ["devices"] });
      await client.invalidateQueries({ queryKey: ["nodes"] });
    },
  });
  if (!mayAdminister(session.data)) return null;
  const apart = state === "cordoned" || state === "draining";
  return (
    <div className="fields">
      {act.error && (
        <span className="banner" data-kind="bad" role="alert">
          {act.error.message}
        </span>
      )}
      {apart ? (
        <button type="button" className="button" onClick={() => act.mutate({ verb: "uncordon" })}>
          Uncordon
        </button>
      ) : (
        <button type="button" className="button" onClick={() => setAsked("cordon")}>
          Cordon
        </button>
      )}
      {target.kind === "node" && state !== "draining" && (
        <button type="button" className="button" data-kind="danger" onClick={() => setAsked("drain")}>
          Drain
        </button>
      )}
      {asked && (
        <Ask
          verb={asked}
          name={target.name}
          onClose={() => setAsked(null)}
          onAnswer={(reason, deadlineS) => {
            setAsked(null);
            act.mutate({ verb: asked, reason, deadlineS });
          }}
        />
      )}
    </div>
  );
}

function request(target: Target, verb: Verb, reason: string, deadlineS: number | null): Promise<unknown> {
  if (target.kind === "device") {
    const path = { device: target.uuid };
    return verb === "uncordon"
      ? answered(api.POST("/api/v1/devices/{device}/uncordon", { params: { path } }))
      : answered(api.POST("/api/v1/devices/{device}/cordon", { params: { path }, body: { reason } }));
  }
  const path = { node: target.name };
  if (verb === "uncordon") return answered(api.POST("/api/v1/nodes/{node}/uncordon", { params: { path } }));
  if (verb === "cordon")
    return answered(api.POST("/api/v1/nodes/{node}/cordon", { params: { path }, body: { reason } }));
  return answered(
    api.POST("/api/v1/nodes/{node}/drain", { params: { path }, body: { reason, deadline_s: deadlineS } }),
  );
}

const DEADLINES = [
  ["", "wait for all jobs to end"],
  ["600", "in 10 minutes"],
  ["3600", "in an hour"],
  ["86400", "in a day"],
] as const;

function Ask({
  verb,
  name,
  onAnswer,
  onClose,
}: {
  verb: "cordon" | "drain";
  name: string;
  onAnswer: (reason: string, deadlineS: number | undefined) => void;
  onClose: () => void;
}) {
  const [reason, setReason] = useState("");
  const [deadline, setDeadline] = useState("");
  const { title, says } = ASKED[verb];
  return (
    <ModalOverlay className="overlay" isOpen isDismissable onOpenChange={(open) => !open && onClose()}>
      <Modal>
        <Dialog className="dialog" role="alertdialog">
          <Heading slot="title">
            {title} <UserText text={name} />?
          </Heading>
          <p style={{ margin: 0 }}>{says}</p>
          <form
            className="form"
            onSubmit={(event) => {
              event.preventDefault();
              onAnswer(reason, deadline === "" ? undefined : Number(deadline));
            }}
          >
            <div className="field">
              <label htmlFor="cordon-reason">Reason, visible to everybody</label>
              <input
                id="cordon-reason"
                value={reason}
                placeholder="new fans"
                onChange={(event) => setReason(event.target.value)}
              />
            </div>
            {verb === "drain" && (
              <div className="field">
                <label htmlFor="drain-deadline">Deadline</label>
                <select
                  id="drain-deadline"
                  value={deadline}
                  onChange={(event) => setDeadline(event.target.value)}
                >
                  {DEADLINES.map(([value, words]) => (
                    <option key={value} value={value}>
                      {words}
                    </option>
                  ))}
                </select>
              </div>
            )}
            <div className="actions">
              <button type="button" className="button" onClick={onClose}>
                Leave it
              </button>
              <button type="submit" className="button" data-kind="main">
                {title}
              </button>
            </div>
          </form>
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}
