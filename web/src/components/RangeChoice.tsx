import { momentsOf, type Range, RANGES } from "../api/historyQueries";
import { localText, momentInFull, serverNow, unixOf } from "../format/times";
import { Choice } from "./Choice";

const CHOSEN = "from … to";
const FIRST_S = 6 * 3600;

/** How far back the charts of a page reach, or from when to when. */
export function RangeChoice({ value, onChange }: { value: Range; onChange: (range: Range) => void }) {
  const moments = momentsOf(value);
  const choose = (option: string) => {
    const now = Math.ceil(serverNow() / 60) * 60;
    onChange(option === CHOSEN ? `${now - FIRST_S}-${now}` : (option as Range));
  };
  return (
    <>
      <Choice
        label="Range of the charts"
        options={[...RANGES, CHOSEN]}
        value={moments ? CHOSEN : value}
        onChange={choose}
      />
      {moments && <Moments key={value} moments={moments} onChange={onChange} />}
    </>
  );
}

function Moments({
  moments: [fromS, toS],
  onChange,
}: {
  moments: [number, number];
  onChange: (range: Range) => void;
}) {
  const input = (
    label: string,
    atS: number,
    take: (atS: number) => Range,
    bounds: { min?: string; max?: string },
  ) => (
    <label>
      {label}{" "}
      <input
        type="datetime-local"
        title={momentInFull(atS)}
        defaultValue={localText(atS)}
        {...bounds}
        // A moment that is being typed is none yet, so it counts when the field is left.
        onBlur={(event) => {
          const chosen = unixOf(event.target.value);
          if (chosen !== null && chosen !== atS && event.target.validity.valid) onChange(take(chosen));
        }}
      />
    </label>
  );
  return (
    <>
      {input("From", fromS, (from) => `${from}-${toS}`, { max: localText(toS - 60) })}
      {input("To", toS, (to) => `${fromS}-${to}`, { min: localText(fromS + 60) })}
    </>
  );
}
