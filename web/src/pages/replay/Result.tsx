import { useNavigate, useSearch } from "@tanstack/react-router";
import type { Replay, ReplayedGroup, ReplayResult } from "../../api/replayQueries";
import { Chart } from "../../charts/Chart";
import { overTime, waitsByPart } from "../../charts/courses";
import { JobLink } from "../../components/JobLink";
import { Panel } from "../../components/Panel";
import { Empty } from "../../components/states";
import { TableBox } from "../../components/TableBox";
import { UserText, visible } from "../../components/UserText";
import { duration, momentInFull } from "../../format/times";
import {
  comparedIndex,
  courseName,
  figuresOf,
  type Moved,
  movedJobs,
  tone,
  verdict,
  waitDifference,
} from "../../pool/replays";

/** What each policy made of the same jobs. */
export function Result({ replay, result }: { replay: Replay; result: ReplayResult }) {
  const search = useSearch({ from: "/replay" });
  const at = comparedIndex(result, search.course);
  const names = result.courses.map((course) => visible(courseName(course.name))).join(", ");
  return (
    <>
      <Panel
        title="Side by side"
        aside={
          <span className="quiet">
            {momentInFull(replay.since)} to {momentInFull(replay.until)}, on {result.gpus} GPUs
          </span>
        }
      >
        <p role="status">{verdict(result, at)}</p>
        <Figures result={result} />
      </Panel>
      <Panel title="GPUs allocated">
        <Chart
          group="replay"
          label={`GPUs allocated over time: ${names}`}
          option={overTime(result, (course) => course.allocated, result.gpus)}
        />
      </Panel>
      <div className="columns">
        <Panel title="Jobs waiting">
          <Chart
            group="replay"
            label={`Jobs waiting over time: ${names}`}
            option={overTime(result, (course) => course.waiting)}
          />
        </Panel>
        <Panel title="Waits, shortest to longest" aside={<span className="quiet">by part of the jobs</span>}>
          <Chart label={`How long the jobs waited: ${names}`} option={waitsByPart(result)} />
        </Panel>
      </div>
      <MovedJobs result={result} at={at} />
      <Groups title="By user" kind="User" result={result} groups={result.users} />
      {result.queues.length > 1 && (
        <Groups title="By queue" kind="Queue" result={result} groups={result.queues} />
      )}
      <Reading />
    </>
  );
}

function Heads({ result }: { result: ReplayResult }) {
  return result.courses.map((course, index) => (
    <th key={course.name} className="number" scope="col">
      <UserText text={courseName(course.name)} />
      {index === result.base && <span className="only-read-aloud"> (the others are compared with it)</span>}
    </th>
  ));
}

function Difference({ wait, base }: { wait: number | null; base: number | null }) {
  const said = waitDifference(wait, base);
  return said ? (
    <small className="replay-difference" data-tone={tone(wait, base)}>
      {said}
    </small>
  ) : null;
}

function Figures({ result }: { result: ReplayResult }) {
  const base = result.courses[result.base];
  return (
    <TableBox label="Key figures of each policy">
      <table>
        <thead>
          <tr>
            <th scope="col">Figure</th>
            <Heads result={result} />
          </tr>
        </thead>
        <tbody>
          {figuresOf(result.courses).map((figure) => (
            <tr key={figure.name}>
              <th scope="row">{figure.name}</th>
              {result.courses.map((course, index) => (
                <td key={course.name} className="number">
                  {figure.value(course)}
                  {figure.waitS && base && index !== result.base && (
                    <Difference wait={figure.waitS(course)} base={figure.waitS(base)} />
                  )}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </TableBox>
  );
}

function MovedJobs({ result, at }: { result: ReplayResult; at: number }) {
  const navigate = useNavigate({ from: "/replay" });
  const { sooner, later } = movedJobs(result, at);
  const here = result.courses[at];
  const base = result.courses[result.base];
  if (!here || !base) return null;
  return (
    <Panel
      title={`Jobs whose wait changes most against “${visible(courseName(base.name))}”`}
      aside={
        result.courses.length > 2 && (
          <span className="field">
            <label htmlFor="replay-course">Under</label>
            <select
              id="replay-course"
              value={here.name}
              onChange={(event) =>
                void navigate({
                  search: (old) => ({ ...old, course: event.target.value }),
                  resetScroll: false,
                })
              }
            >
              {result.courses.map(
                (course, index) =>
                  index !== result.base && (
                    <option key={course.name} value={course.name}>
                      {visible(courseName(course.name))}
                    </option>
                  ),
              )}
            </select>
          </span>
        )
      }
    >
      {sooner.length + later.length === 0 ? (
        <Empty title="No job waits longer or shorter">Every job starts at the same time there.</Empty>
      ) : (
        <div className="columns">
          <MovedTable title="Sooner" moved={sooner} />
          <MovedTable title="Later" moved={later} />
        </div>
      )}
    </Panel>
  );
}

function MovedTable({ title, moved }: { title: string; moved: readonly Moved[] }) {
  return (
    <div>
      <h3>{title}</h3>
      {moved.length === 0 ? (
        <p className="quiet">none</p>
      ) : (
        <TableBox label={title}>
          <table>
            <thead>
              <tr>
                <th scope="col">Job</th>
                <th scope="col">Who</th>
                <th scope="col" className="number hide-narrow">
                  GPUs
                </th>
                <th scope="col" className="number">
                  Wait
                </th>
              </tr>
            </thead>
            <tbody>
              {moved.map(({ job, baseS, hereS }) => (
                <tr key={job.id}>
                  <td>
                    <JobLink job={job} />
                  </td>
                  <td>
                    <UserText text={job.user} />
                  </td>
                  <td className="number hide-narrow">{job.gpus}</td>
                  <td className="number replay-wait" title={`submitted ${momentInFull(job.submitted_at)}`}>
                    <span>{duration(baseS)} →</span> <span>{duration(hereS)}</span>
                    <Difference wait={hereS} base={baseS} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </TableBox>
      )}
    </div>
  );
}

function Groups({
  title,
  kind,
  result,
  groups,
}: {
  title: string;
  kind: string;
  result: ReplayResult;
  groups: readonly ReplayedGroup[];
}) {
  return (
    <Panel title={title} aside={<span className="quiet">mean waits</span>}>
      <TableBox label={`Mean waits ${title.toLowerCase()}`}>
        <table>
          <thead>
            <tr>
              <th scope="col">{kind}</th>
              <th scope="col" className="number">
                Jobs
              </th>
              <Heads result={result} />
            </tr>
          </thead>
          <tbody>
            {groups.map((group) => (
              <tr key={group.name}>
                <td>
                  <UserText text={group.name} />
                </td>
                <td className="number">{group.jobs.toLocaleString()}</td>
                {group.mean_wait_s.map((wait, index) => (
                  <td key={result.courses[index]?.name ?? index} className="number">
                    {duration(wait)}
                    {index !== result.base && (
                      <Difference wait={wait} base={group.mean_wait_s[result.base] ?? null} />
                    )}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </TableBox>
    </Panel>
  );
}

/** What a simulation leaves out. */
function Reading() {
  return (
    <details className="panel">
      <summary>How to read this</summary>
      <ul>
        <li>
          “As it was” is the recorded course. The policies beside it are simulated, so compare them with each
          other first: failures, cordons, cancellations and start times are in the recorded course alone.
        </li>
        <li>
          Each job takes as long as its last attempt, and arrives when only its queue kept it from starting.
          Jobs that never started are left out, because their run times are unknown.
        </li>
        <li>
          Jobs that ran at the beginning of the period keep their GPUs until their recorded end. Fair shares
          and estimates of run times start from the history before the period.
        </li>
        <li>Queues, quotas, pools and GPUs are the present ones, plus GPUs that jobs had then.</li>
      </ul>
    </details>
  );
}
