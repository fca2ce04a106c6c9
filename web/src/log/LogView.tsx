import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useEffect, useMemo, useReducer, useRef, useState } from "react";
import type { JobDetail } from "../api/queries";
import { Unreachable } from "../api/client";
import { Empty, Failed } from "../components/states";
import { FIRST_LINES, followLog } from "./follow";
import { coloured, finder, LogLines, marked, plain } from "./lines";
import "../styles/log.css";

const LINE_PX = 19;
const DRAW_MS = 100;
const NEAR_END_PX = 40;
const AGAIN_MS = 2_000;

/** The log of a job from near its end on, live, with its colours and a search. */
export function LogView({ job }: { job: JobDetail }) {
  const [rank, setRank] = useState("0");
  const waits = job.phase === "PENDING" && !job.attempts;
  if (waits) return <Empty title="There is no log yet">It begins when the job starts.</Empty>;
  return (
    <>
      {job.members.length > 1 && (
        <div className="fields" style={{ marginBottom: 8 }}>
          <div className="field">
            <label htmlFor="rank">Rank</label>
            <select id="rank" value={rank} onChange={(event) => setRank(event.target.value)}>
              <option value="all">all</option>
              {job.members.map((member) => (
                <option key={member.rank}>{member.rank}</option>
              ))}
            </select>
          </div>
        </div>
      )}
      <OneLog key={`${job.id} ${rank} ${job.attempts}`} jobId={job.id} rank={rank} />
    </>
  );
}

/** The lines of a log as they come. Where the server went away, it is read anew when it is back. */
function useLog(jobId: string, rank: string) {
  const [lines, setLines] = useState<readonly string[]>([]);
  const [error, setError] = useState<Error | null>(null);
  const [ended, setEnded] = useState(false);
  const [attempt, again] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const stop = new AbortController();
    const log = new LogLines();
    let timer: number | undefined;
    const draw = () => {
      timer = undefined;
      setError(null);
      setLines(log.all());
    };
    const take = (piece: Uint8Array) => {
      log.take(piece);
      timer ??= window.setTimeout(draw, DRAW_MS);
    };
    followLog(jobId, rank, take, stop.signal).then(
      () => {
        draw();
        setEnded(true);
      },
      (failure: Error) => {
        setError(failure);
        if (failure instanceof Unreachable) timer = window.setTimeout(again, AGAIN_MS);
      },
    );
    return () => {
      stop.abort();
      window.clearTimeout(timer);
    };
  }, [jobId, rank, attempt]);
  return { lines, error, ended };
}

function OneLog({ jobId, rank }: { jobId: string; rank: string }) {
  const { lines, error, ended } = useLog(jobId, rank);
  const [wanted, setWanted] = useState("");
  const box = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const word = useMemo(() => finder(wanted), [wanted]);
  const found = useMemo(
    () => (word ? lines.flatMap((line, at) => (plain(line).search(word) >= 0 ? [at] : [])) : []),
    [lines, word],
  );
  const [chosen, setChosen] = useState(0);
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_PX,
    overscan: 30,
  });

  useEffect(() => {
    if (atEnd.current && lines.length && !wanted) virtual.scrollToIndex(lines.length - 1, { align: "end" });
  }, [lines, virtual, wanted]);

  const goTo = (which: number) => {
    const next = (which + found.length) % found.length;
    setChosen(next);
    const line = found[next];
    if (line !== undefined) virtual.scrollToIndex(line, { align: "center" });
  };

  if (error && !lines.length) return <Failed error={error} />;
  return (
    <>
      <search className="fields" style={{ marginBottom: 8 }}>
        <div className="field">
          <label htmlFor="find">Find in the log</label>
          <input
            id="find"
            value={wanted}
            onChange={(event) => {
              setWanted(event.target.value);
              setChosen(0);
            }}
            onKeyDown={(event) =>
              event.key === "Enter" && found.length && goTo(chosen + (event.shiftKey ? -1 : 1))
            }
          />
        </div>
        {wanted && (
          <>
            <span className="quiet" role="status">
              {found.length ? `${chosen + 1} of ${found.length}` : "not found"}
            </span>
            <button
              type="button"
              className="button"
              disabled={!found.length}
              onClick={() => goTo(chosen - 1)}
            >
              Previous
            </button>
            <button
              type="button"
              className="button"
              disabled={!found.length}
              onClick={() => goTo(chosen + 1)}
            >
              Next
            </button>
          </>
        )}
        <a
          className="button"
          href={`/api/v1/jobs/${encodeURIComponent(jobId)}/logs?rank=${rank}`}
          download={`${jobId}.log`}
        >
          Download
        </a>
        <span className="quiet">
          {ended ? "ended" : error ? "not live: the server does not answer" : "live"}
          {lines.length >= FIRST_LINES && "; only the end of a long log is shown, the download has all of it"}
        </span>
      </search>
      <div
        ref={box}
        className="log"
        role="log"
        aria-label={`Log of job ${jobId}`}
        tabIndex={0}
        onScroll={(event) => {
          const at = event.currentTarget;
          atEnd.current = at.scrollHeight - at.scrollTop - at.clientHeight < NEAR_END_PX;
        }}
      >
        {lines.length === 0 && <p className="quiet line">{ended ? "No output." : "No output yet."}</p>}
        <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
          {virtual.getVirtualItems().map((item) => (
            <div
              key={item.key}
              className="line"
              style={{ position: "absolute", top: item.start, height: LINE_PX, left: 0, minWidth: "100%" }}
            >
              <Line text={lines[item.index] ?? ""} wanted={word} />
            </div>
          ))}
        </div>
      </div>
    </>
  );
}

const Line = memo(function Line({ text, wanted }: { text: string; wanted: RegExp | null }) {
  return coloured(text).map((span, at) => (
    <span key={at} style={{ color: span.colour ?? undefined, fontWeight: span.bold ? 700 : undefined }}>
      {marked(span.text, wanted).map((part, which) => (which % 2 ? <mark key={which}>{part}</mark> : part))}
    </span>
  ));
});
