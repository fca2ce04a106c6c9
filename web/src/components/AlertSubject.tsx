import { Link } from "@tanstack/react-router";
import type { Alert } from "../api/queries";
import { UserText } from "./UserText";

/** What an alert is about, with the way to its page where it has one. */
export function AlertSubject({ alert }: { alert: Pick<Alert, "labels" | "subject"> }) {
  const { uuid, job, node, queue } = alert.labels;
  const name = <UserText text={uuid && node ? `${node}:${alert.labels.gpu ?? uuid}` : alert.subject} />;
  if (uuid)
    return (
      <Link to="/devices/$uuid" params={{ uuid }}>
        GPU {name}
      </Link>
    );
  if (job)
    return (
      <Link to="/jobs/$id" params={{ id: job }}>
        {name}
      </Link>
    );
  if (node)
    return (
      <Link to="/nodes/$name" params={{ name: node }}>
        {name}
      </Link>
    );
  if (queue)
    return (
      <Link to="/queue" search={{ queue }}>
        {name}
      </Link>
    );
  return name;
}
