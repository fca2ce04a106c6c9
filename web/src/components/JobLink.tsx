import { Link } from "@tanstack/react-router";
import { UserText } from "./UserText";

/** A job by its id and name, with the way to its page. */
export function JobLink({ job }: { job: { id: string; name?: string } }) {
  return (
    <Link to="/jobs/$id" params={{ id: job.id }}>
      {job.id} {job.name && <UserText text={job.name} className="quiet" />}
    </Link>
  );
}
