/** What the server lets this session do. What it does not is not offered; the server checks all the same. */
import type { Alert, Session, Silence } from "../api/queries";

/** Whether it may change anything at all. */
export function mayWork(session: Session | undefined): boolean {
  return session !== undefined && session.scope !== "read";
}

/** Whether it may change what is everybody's: nodes, devices, alerts about them. */
export function mayAdminister(session: Session | undefined): boolean {
  return mayWork(session) && session?.admin === true;
}

/** Who is no administrator acknowledges alerts about their own jobs. */
export function mayAcknowledge(session: Session | undefined, alert: Alert): boolean {
  if (alert.state !== "firing" || alert.acknowledged_by !== null) return false;
  return mayAdminister(session) || (mayWork(session) && isAboutJobOf(session, alert));
}

/** Whether a silence of this session could match the alert. */
export function maySilence(session: Session | undefined, alert: Alert): boolean {
  if (alert.state !== "firing") return false;
  return mayAdminister(session) || (mayWork(session) && isAboutJobOf(session, alert));
}

export function mayEndSilence(session: Session | undefined, silence: Silence): boolean {
  return mayAdminister(session) || (mayWork(session) && session?.user === silence.by);
}

function isAboutJobOf(session: Session | undefined, alert: Alert): boolean {
  return alert.labels.job !== undefined && alert.labels.user === session?.user;
}

export function mayChangeJob(session: Session | undefined, job: { user: string }): boolean {
  return session !== undefined && session.scope !== "read" && (session.admin || session.user === job.user);
}

/** A task of the autotuner is its user's. */
export const mayChangeTask = mayChangeJob;
