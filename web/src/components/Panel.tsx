import type { ReactNode } from "react";
import { useId } from "react";
import { visible } from "./UserText";

/** A part of a page with its heading. */
export function Panel({ title, aside, children }: { title: string; aside?: ReactNode; children: ReactNode }) {
  const id = useId();
  return (
    <section className="panel" aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        {aside}
      </header>
      {children}
    </section>
  );
}

/** Numbers that are seen first. */
export function Figures({
  figures,
}: {
  figures: readonly { name: string; value: ReactNode; more?: ReactNode }[];
}) {
  return (
    <dl className="figures">
      {figures.map((figure) => (
        <div className="figure" key={figure.name}>
          <dt>{figure.name}</dt>
          <dd>
            {figure.value} {figure.more && <small>{figure.more}</small>}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** Names with their values, those that are not known left out. */
export function Facts({ facts }: { facts: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="facts">
      {facts
        .filter(([, value]) => value !== null && value !== undefined && value !== "")
        .map(([name, value]) => (
          <div key={name} style={{ display: "contents" }}>
            <dt>{visible(name)}</dt>
            <dd>{typeof value === "string" ? visible(value) : value}</dd>
          </div>
        ))}
    </dl>
  );
}
