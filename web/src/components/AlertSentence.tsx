import { Link } from "@tanstack/react-router";
import type { Alert } from "../api/queries";
import { UserText } from "./UserText";

/** What an alert says, as the way to the page of what it is about where there is one. */
export function AlertSentence({ alert }: { alert: Pick<Alert, "labels" | "sentence"> }) {
  const { uuid, job, node, queue } = alert.labels;
  const sentence = <UserText text={alert.sentence} />;
  if (uuid)
    return (
      <Link to="/devices/$uuid" params={{ uuid }}>
        {sentence}
      </Link>
    );
  if (job)
    return (
      <Link to="/jobs/$id" params={{ id: job }}>
        {sentence}
      </Link>
    );
  if (node)
    return (
      <Link to="/nodes/$name" params={{ name: node }}>
        {sentence}
      </Link>
    );
  if (queue)
    return (
      <Link to="/queue" search={{ queue }}>
        {sentence}
      </Link>
    );
  return sentence;
}
