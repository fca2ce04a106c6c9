/** Text that a user chose. */

// Control characters, and those that change the direction or hide what follows, are shown as what they are.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/gu;

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
