import { useId } from "react";
import { visible } from "./UserText";

/** One of some values, or all of them. What is chosen stays among them when it is there no more. */
export function Select({
  label,
  value,
  options,
  onChange,
}: {
  label: string;
  value: string | undefined;
  options: readonly (readonly [value: string, words: string])[];
  onChange: (value: string) => void;
}) {
  const id = useId();
  const lost = value !== undefined && !options.some(([known]) => known === value);
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <select id={id} value={value ?? ""} onChange={(event) => onChange(event.target.value)}>
        <option value="">all</option>
        {lost && <option value={value}>{visible(value)}</option>}
        {options.map(([known, words]) => (
          <option key={known} value={known}>
            {visible(words)}
          </option>
        ))}
      </select>
    </div>
  );
}
