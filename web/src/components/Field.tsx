import type { ReactNode } from "react";
import { useId } from "react";

interface Given {
  label: string;
  hint?: ReactNode;
  error?: string | null;
  className?: string;
}

/** A field with its name, what may be in it, and below it what is wrong with it. */
export function Field({
  label,
  hint,
  error,
  className,
  children,
}: Given & {
  children: (input: { id: string; "aria-describedby": string; "aria-invalid": boolean }) => ReactNode;
}) {
  const id = useId();
  const told = `${id}-told`;
  return (
    <div className={`field ${className ?? ""}`}>
      <label htmlFor={id}>{label}</label>
      {children({ id, "aria-describedby": told, "aria-invalid": Boolean(error) })}
      <span id={told} className={error ? "field-error" : "field-hint"} role={error ? "alert" : undefined}>
        {error ?? hint}
      </span>
    </div>
  );
}

/** A field of one line. */
export function TextField({
  value,
  onChange,
  placeholder,
  list,
  ...given
}: Given & {
  value: string;
  onChange: (value: string) => void;
  placeholder?: string;
  list?: string;
}) {
  return (
    <Field {...given}>
      {(input) => (
        <input
          {...input}
          value={value}
          placeholder={placeholder}
          list={list}
          autoComplete="off"
          spellCheck={false}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Field>
  );
}
