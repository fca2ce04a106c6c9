/** A percentage as a bar with its number; "–" where it is not known. */
export function Bar({ percent, label }: { percent: number | null | undefined; label: string }) {
  if (percent == null) return <span className="quiet">–</span>;
  const whole = Math.round(percent);
  return (
    <span
      className="bar"
      role="meter"
      aria-label={label}
      aria-valuenow={whole}
      aria-valuemin={0}
      aria-valuemax={100}
    >
      <span>
        <i style={{ width: `${Math.min(100, Math.max(0, whole))}%` }} />
      </span>
      <span>{whole}%</span>
    </span>
  );
}
