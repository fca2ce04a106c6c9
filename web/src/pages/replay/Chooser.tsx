import { useState } from "react";
import type { Schemas } from "../../api/client";
import { Choice } from "../../components/Choice";
import { Panel } from "../../components/Panel";
import { UserText, visible } from "../../components/UserText";
import { REPORT_RANGES, type ReportRange } from "../../pool/choices";
import { CONFIGURED, courseName, FIRST_RANGE, MOST_POLICIES, policyMeaning } from "../../pool/replays";
import type { ReplaySearch } from "../../router";

type Choices = Schemas["ReplayChoices"];
type Change = Pick<ReplaySearch, "policies" | "range" | "from" | "to">;

/** Which policies and which time: what the address has, and the way to begin. */
export function Chooser({
  choices,
  policies,
  search,
  onChange,
  onStart,
  starting,
  error,
}: {
  choices: Choices | undefined;
  policies: readonly string[];
  search: ReplaySearch;
  onChange: (next: Change) => void;
  onStart: () => void;
  starting: boolean;
  error: Error | null;
}) {
  const setPolicies = (next: readonly string[]) => onChange({ policies: next.join(",") || undefined });
  return (
    <Panel title="What to compare">
      <form
        className="form"
        onSubmit={(event) => {
          event.preventDefault();
          onStart();
        }}
      >
        <ul className="chips" aria-label="Policies">
          {policies.map((name) => (
            <li key={name}>
              <UserText text={courseName(name)} />
              {policies.length > 1 && (
                <button
                  type="button"
                  aria-label={`Leave out ${visible(courseName(name))}`}
                  onClick={() => setPolicies(policies.filter((each) => each !== name))}
                >
                  ×
                </button>
              )}
            </li>
          ))}
        </ul>
        {policies.length < MOST_POLICIES ? (
          <Adder choices={choices} policies={policies} onAdd={(name) => setPolicies([...policies, name])} />
        ) : (
          <p className="quiet">No more than {MOST_POLICIES}: leave one out to add another.</p>
        )}
        <Period search={search} onChange={onChange} />
        {error && (
          <p className="banner" data-kind="bad" role="alert">
            {error.message}
          </p>
        )}
        <div>
          <button type="submit" className="button" data-kind="main" disabled={starting}>
            Start
          </button>
        </div>
      </form>
    </Panel>
  );
}

function Adder({
  choices,
  policies,
  onAdd,
}: {
  choices: Choices | undefined;
  policies: readonly string[];
  onAdd: (name: string) => void;
}) {
  const [policy, setPolicy] = useState("");
  const [backfill, setBackfill] = useState("");
  const configured = policy === CONFIGURED;
  const name = backfill && !configured ? `${policy}/${backfill}` : policy;
  return (
    <div className="fields">
      <div className="field replay-policy">
        <label htmlFor="replay-policy">Policy</label>
        <select id="replay-policy" value={policy} onChange={(event) => setPolicy(event.target.value)}>
          <option value="">{choices ? "choose …" : "reading …"}</option>
          {choices &&
            [CONFIGURED, ...choices.policies].map((known) => (
              <option key={known} value={known}>
                {visible(policyMeaning(known, choices.configured))}
              </option>
            ))}
        </select>
      </div>
      <div className="field">
        <label htmlFor="replay-backfill">Backfill</label>
        <select
          id="replay-backfill"
          value={configured ? "" : backfill}
          disabled={configured}
          onChange={(event) => setBackfill(event.target.value)}
        >
          <option value="">the policy’s own</option>
          {choices?.backfills.map((known) => (
            <option key={known} value={known}>
              {known}
            </option>
          ))}
        </select>
      </div>
      <button
        type="button"
        className="button"
        disabled={!policy || policies.includes(name)}
        onClick={() => {
          onAdd(name);
          setPolicy("");
          setBackfill("");
        }}
      >
        Add
      </button>
    </div>
  );
}

function Period({ search, onChange }: { search: ReplaySearch; onChange: (next: Change) => void }) {
  const days = search.from !== undefined;
  const range: ReportRange | "" = days ? "" : (search.range ?? FIRST_RANGE);
  return (
    <div className="fields">
      <div className="field">
        <span className="replay-label" aria-hidden="true">
          The last
        </span>
        <Choice<ReportRange | "">
          label="The last"
          options={REPORT_RANGES}
          value={range}
          onChange={(next) => onChange({ range: next || undefined, from: undefined, to: undefined })}
        />
      </div>
      <div className="field">
        <label htmlFor="replay-from">or from</label>
        <input
          id="replay-from"
          type="date"
          value={search.from ?? ""}
          onChange={(event) => onChange({ from: event.target.value || undefined })}
        />
      </div>
      <div className="field">
        <label htmlFor="replay-to">to</label>
        <input
          id="replay-to"
          type="date"
          value={search.to ?? ""}
          min={search.from}
          disabled={!days}
          onChange={(event) => onChange({ to: event.target.value || undefined })}
        />
      </div>
    </div>
  );
}
