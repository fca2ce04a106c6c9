import { type Range, RANGES } from "../api/historyQueries";
import { Choice } from "./Choice";

/** How far back the charts of a page reach. */
export function RangeChoice({ value, onChange }: { value: Range; onChange: (range: Range) => void }) {
  return <Choice label="Range of the charts" options={RANGES} value={value} onChange={onChange} />;
}
