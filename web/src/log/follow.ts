/** Reads the log of a job as it grows. */
import { answered, api, Unreachable } from "../api/client";

export const FIRST_LINES = 5_000;
/** The code with which a WebSocket is closed that has told all. */
const ALL_TOLD = 1000;

/**
 * Gives pieces of the log to `take`, from near its end on, until the job has ended or the signal says stop. Over a
 * WebSocket: browsers allow a server six other connections in all tabs together.
 */
export async function followLog(
  jobId: string,
  rank: string,
  take: (piece: Uint8Array) => void,
  signal: AbortSignal,
): Promise<void> {
  const query = new URLSearchParams({ tail: String(FIRST_LINES), rank });
  const path = `/api/v1/jobs/${encodeURIComponent(jobId)}/logs?${query}`;
  const socket = new WebSocket(window.location.origin.replace(/^http/, "ws") + path);
  socket.binaryType = "arraybuffer";
  let opened = false;
  const code = await new Promise<number>((resolve) => {
    socket.onopen = () => (opened = true);
    socket.onmessage = (message: MessageEvent<ArrayBuffer>) => take(new Uint8Array(message.data));
    socket.onclose = (event) => resolve(event.code);
    signal.addEventListener("abort", () => socket.close());
  });
  if (signal.aborted || code === ALL_TOLD) return;
  // A browser does not say why a WebSocket was refused.
  if (!opened) await refusal(jobId, rank);
  throw new Unreachable();
}

/** Throws what the server says of a log that it does not send, and nothing where it would. */
async function refusal(job_id: string, rank: string): Promise<void> {
  await answered(
    api.GET("/api/v1/jobs/{job_id}/logs", {
      params: { path: { job_id }, query: { tail: 0, rank } },
      parseAs: "text",
    }),
  );
}
