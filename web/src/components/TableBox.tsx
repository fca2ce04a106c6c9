import type { ReactNode } from "react";

/** A table that scrolls sideways where the page is narrower, by the keyboard too. */
export function TableBox({ label, children }: { label: string; children: ReactNode }) {
  return (
    <section className="table-box" tabIndex={0} aria-label={label}>
      {children}
    </section>
  );
}
