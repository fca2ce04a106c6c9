import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { mayAdminister } from "../access/rights";
import { answered, api, ApiError } from "../api/client";
import { sessionQuery } from "../api/queries";
import { duration } from "../format/times";

const TIMES_S = [1_800, 3_600, 7_200, 28_800, 86_400, 604_800] as const;
const USUAL_S = 7_200;

/** Asks which alerts are not to be told, for how long, and why. */
export function SilenceDialog({ match: first, onClose }: { match: string; onClose: () => void }) {
  const session = useQuery(sessionQuery);
  const client = useQueryClient();
  const [match, setMatch] = useState(first);
  const [forS, setForS] = useState<number>(USUAL_S);
  const [reason, setReason] = useState("");
  const silence = useMutation({
    mutationFn: () => answered(api.POST("/api/v1/silences", { body: { match, duration_s: forS, reason } })),
    onSuccess: async () => {
      onClose();
      await client.invalidateQueries({ queryKey: ["silences"] });
      await client.invalidateQueries({ queryKey: ["alerts"] });
    },
  });
  const wrongField = silence.error instanceof ApiError ? silence.error.field : null;
  return (
    <ModalOverlay className="overlay" isOpen isDismissable onOpenChange={(open) => !open && onClose()}>
      <Modal>
        <Dialog className="dialog">
          <Heading slot="title">Silence alerts</Heading>
          <p className="quiet">
            Silenced alerts are listed, but cause no messages.
            {!mayAdminister(session.data) && " You can silence only alerts about your own jobs."}
          </p>
          <form
            className="form"
            onSubmit={(event) => {
              event.preventDefault();
              silence.mutate();
            }}
          >
            <div className="field">
              <label htmlFor="silence-match">Alerts</label>
              <input
                id="silence-match"
                className="mono"
                value={match}
                required
                aria-describedby="silence-hint"
                aria-invalid={wrongField === "match"}
                placeholder="node=gpu-07,severity=warning"
                onChange={(event) => setMatch(event.target.value)}
              />
              <span className="quiet" id="silence-hint">
                A rule, an alert&apos;s id, or KEY=PATTERN with commas between: rule, severity, subject, node,
                gpu, uuid, model, job, name, user, project, queue, disk. * is anything.
              </span>
            </div>
            <div className="field">
              <label htmlFor="silence-time">Duration</label>
              <select
                id="silence-time"
                value={forS}
                onChange={(event) => setForS(Number(event.target.value))}
              >
                {TIMES_S.map((seconds) => (
                  <option key={seconds} value={seconds}>
                    {duration(seconds)}
                  </option>
                ))}
              </select>
            </div>
            <div className="field">
              <label htmlFor="silence-reason">Reason</label>
              <input
                id="silence-reason"
                value={reason}
                placeholder="new fans"
                onChange={(event) => setReason(event.target.value)}
              />
            </div>
            {silence.error && (
              <p className="banner" data-kind="bad" role="alert">
                {silence.error.message}
              </p>
            )}
            <div className="actions">
              <button type="button" className="button" onClick={onClose}>
                Not now
              </button>
              <button type="submit" className="button" data-kind="main" disabled={silence.isPending}>
                Silence
              </button>
            </div>
          </form>
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}
