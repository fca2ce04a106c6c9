import type { Tone } from "./tones";
import { inWords } from "./tones";
import { visible } from "./UserText";

/** One word with a colour that repeats what it says. */
export function Tag({ word, tone, title }: { word: string; tone: Tone; title?: string }) {
  return (
    <span className="tag" data-tone={tone} title={title && visible(title)}>
      {inWords(word)}
    </span>
  );
}
