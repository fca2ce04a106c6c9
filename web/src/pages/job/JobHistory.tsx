import type { JobDetail } from "../../api/queries";
import { Panel } from "../../components/Panel";
import { Empty } from "../../components/states";
import { UserText } from "../../components/UserText";
import { duration, moment, momentInFull } from "../../format/times";
import { useNow } from "../../live/useNow";
import { stateHistory } from "./stateHistory";

/** What became of a job, and how long each step was after the one before. */
export function StateHistory({ job }: { job: JobDetail }) {
  const steps = stateHistory(job);
  return (
    <Panel title="State history">
      <ol className="steps">
        {steps.map((step, at) => {
          const before = steps[at - 1];
          return (
            <li key={`${step.at} ${step.what}`}>
              <time dateTime={new Date(step.at * 1000).toISOString()} title={momentInFull(step.at)}>
                {moment(step.at)}
              </time>
              <span>
                {step.what}
                {before && <span className="quiet"> after {duration(step.at - before.at)}</span>}
                {step.more && (
                  <small className="quiet">
                    <UserText text={step.more} />
                  </small>
                )}
              </span>
            </li>
          );
        })}
      </ol>
    </Panel>
  );
}

export function Attempts({ job }: { job: JobDetail }) {
  const now = useNow();
  return (
    <Panel title="Attempts">
      {job.history.length ? (
        <table>
          <thead>
            <tr>
              <th className="number">#</th>
              <th>Where</th>
              <th className="number">GPUs</th>
              <th className="number">Ran</th>
              <th>Ended</th>
            </tr>
          </thead>
          <tbody>
            {job.history.map((attempt) => (
              <tr key={`${attempt.attempt} ${attempt.allocated_at}`}>
                <td className="number">{attempt.attempt}</td>
                <td>
                  <UserText text={attempt.nodes.join(", ") || attempt.node} />
                </td>
                <td className="number">{attempt.devices.length}</td>
                <td className="number">
                  {duration(
                    attempt.started_at == null ? null : (attempt.ended_at ?? now) - attempt.started_at,
                  )}
                </td>
                <td>
                  {attempt.ended_as?.replaceAll("_", " ") ?? "runs"}
                  {attempt.exit_code != null && (
                    <span className="quiet"> with exit code {attempt.exit_code}</span>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <Empty title="It has not run yet" />
      )}
    </Panel>
  );
}
