import { Component, type ReactNode } from "react";
import { visible } from "./UserText";

/** What is shown in place of a page that cannot be drawn. It needs nothing that may be what broke. */
export function Broken({ error }: { error: unknown }) {
  const told = error instanceof Error ? error.message : String(error);
  return (
    <div className="state" role="alert">
      <strong>This page failed</strong>
      <span>
        This is a bug in Corral: {visible(told).slice(0, 300)}. Load the page again; if that does not help,
        open it without its filters, and report the address.
      </span>
      <button type="button" className="button" onClick={() => window.location.reload()}>
        Load again
      </button>
      <a href={window.location.pathname}>Without filters</a>
      <a href="/">Overview</a>
    </div>
  );
}

/** Shows `Broken` where anything within cannot be drawn: without it a browser shows nothing at all. */
export class ErrorBoundary extends Component<{ children: ReactNode }, { broken: boolean; error: unknown }> {
  override state = { broken: false, error: undefined };

  static getDerivedStateFromError(error: unknown) {
    return { broken: true, error };
  }

  override render(): ReactNode {
    return this.state.broken ? <Broken error={this.state.error} /> : this.props.children;
  }
}
