/** Parts of a whole as a bar. What it shows stands in words beside it, so it is not read aloud. */
export function Parts({
  parts,
  whole,
}: {
  parts: readonly { key: string; size: number; colour: string }[];
  whole: number;
}) {
  return (
    <div className="parts" aria-hidden="true">
      {parts
        .filter((part) => part.size > 0)
        .map((part) => (
          <span
            key={part.key}
            style={{ width: `${whole ? (100 * part.size) / whole : 0}%`, background: part.colour }}
          />
        ))}
    </div>
  );
}

const HUES = [205, 165, 280, 35, 330, 95, 250, 15] as const;

/** A colour of a job that is the same wherever it is shown. */
export function jobColour(job: string): string {
  let sum = 0;
  for (const character of job) sum = (sum * 31 + character.charCodeAt(0)) % 997;
  return `hsl(${HUES[sum % HUES.length]} 55% 50%)`;
}
