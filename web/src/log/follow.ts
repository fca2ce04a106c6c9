/** Reads the log of a job as it grows. */
import { ApiError, Unreachable } from "../api/client";

export const FIRST_LINES = 5_000;

/** Gives pieces of the log to `take`, from near its end on, until the job has ended or the signal says stop. */
export async function followLog(
  jobId: string,
  rank: string,
  take: (piece: Uint8Array) => void,
  signal: AbortSignal,
): Promise<void> {
  const query = new URLSearchParams({ follow: "true", tail: String(FIRST_LINES), rank });
  let response: Response;
  try {
    response = await fetch(`/api/v1/jobs/${encodeURIComponent(jobId)}/logs?${query}`, { signal });
  } catch (error) {
    if (signal.aborted) return;
    throw error instanceof TypeError ? new Unreachable() : error;
  }
  if (!response.ok || !response.body) {
    const told = (await response.json().catch(() => null)) as { error?: { message?: string } } | null;
    throw new ApiError(told?.error?.message ?? `The server answered ${response.status}.`, response.status);
  }
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      take(value);
    }
  } catch (error) {
    if (!signal.aborted) throw new Unreachable();
    void error;
  }
}
