/** Text that a user chose. */

// Control characters, those that change the direction of others, and those that nobody sees: half of a letter, what only
// joins or hides, what is blank and no space. They are shown as what they are.
const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]|[\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u{e0000}-\u{e0fff}]/gu;

export function visible(text: string): string {
  return text.replace(HIDDEN, (found) => `\\u${found.codePointAt(0)?.toString(16).padStart(4, "0")}`);
}

/** Shows a name that a user chose: whatever is in it changes nothing around it. */
export function UserText({ text, className }: { text: string; className?: string }) {
  const shown = visible(text);
  return (
    <bdi className={className} title={shown}>
      {shown}
    </bdi>
  );
}
