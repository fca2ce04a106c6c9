import type { ReactNode } from "react";
import { Unreachable } from "../api/client";
import { visible } from "./UserText";

/** What a page shows in place of rows: that they come, that there are none, or why they do not come. */

export function Loading({ what }: { what: string }) {
  return (
    <div className="state" role="status">
      Reading {what} …
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="state">
      <strong>{title}</strong>
      {children}
    </div>
  );
}

export function Failed({ error, retry }: { error: Error; retry?: () => void }) {
  return (
    <div className="state" role="alert">
      <strong>{error instanceof Unreachable ? "No answer" : "The request failed"}</strong>
      <span>{visible(error.message)}</span>
      {retry && (
        <button type="button" className="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

interface Outcome<T> {
  data: T | undefined;
  error: Error | null;
  refetch: () => unknown;
}

/** The rows of a query once they are there, else what is in the way. Old rows stay while the server is away. */
export function Shown<T>({
  query,
  what,
  children,
}: {
  query: Outcome<T>;
  what: string;
  children: (data: T) => ReactNode;
}) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (query.error) return <Failed error={query.error} retry={() => void query.refetch()} />;
  return <Loading what={what} />;
}
