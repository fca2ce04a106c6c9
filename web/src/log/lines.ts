/** A log as lines: what comes in pieces is cut at line ends, and only so many of the newest lines are kept. */
import Anser from "anser";
import { visible } from "../components/UserText";

export const MOST_LINES = 50_000;
/** A longer line is cut: a browser takes seconds to lay one out. */
export const MOST_COLUMNS = 10_000;

export interface Span {
  text: string;
  colour: string | null;
  bold: boolean;
}

/** Lines of a log that grows. */
export class LogLines {
  private decoder = new TextDecoder();
  private rest = "";
  readonly lines: string[] = [];
  /** So many lines before the first of `lines` were let go. */
  dropped = 0;

  take(piece: Uint8Array): void {
    const parts = (this.rest + this.decoder.decode(piece, { stream: true })).split("\n");
    this.rest = (parts.pop() ?? "").slice(0, MOST_COLUMNS * 4);
    for (const part of parts) this.lines.push(shown(part));
    const over = this.lines.length - MOST_LINES;
    if (over > 0) {
      this.lines.splice(0, over);
      this.dropped += over;
    }
  }

  /** All lines as they are now, with the one that is not finished yet. */
  all(): readonly string[] {
    return this.rest ? [...this.lines, shown(this.rest)] : [...this.lines];
  }
}

/** What a terminal would show of a line: the last of what was written over itself, as progress bars do. */
function shown(line: string): string {
  const ended = line.endsWith("\r") ? line.slice(0, -1) : line;
  return ended.slice(ended.lastIndexOf("\r") + 1).slice(0, MOST_COLUMNS);
}

/** The sixteen colours that a terminal names, as they can be read in light and dark. Others are as they were sent. */
const OF_THEME: Record<string, string> = Object.fromEntries(
  [
    ["black", "0, 0, 0", "85, 85, 85"],
    ["red", "187, 0, 0", "255, 85, 85"],
    ["green", "0, 187, 0", "0, 255, 0"],
    ["yellow", "187, 187, 0", "255, 255, 85"],
    ["blue", "0, 0, 187", "85, 85, 255"],
    ["magenta", "187, 0, 187", "255, 85, 255"],
    ["cyan", "0, 187, 187", "85, 255, 255"],
    ["white", "255, 255, 255", "255, 255, 255"],
  ].flatMap(([name, ...sent]) => sent.map((rgb) => [rgb, `var(--ansi-${name})`])),
);

/** The parts of a line that have one colour. Other codes of a terminal are left out. */
export function coloured(line: string): Span[] {
  if (!line.includes("\u001b")) return [{ text: visibleTabs(line), colour: null, bold: false }];
  return Anser.ansiToJson(line, { json: true, remove_empty: true, use_classes: false }).map((part) => ({
    text: visibleTabs(part.content),
    colour: part.fg ? (OF_THEME[part.fg] ?? `rgb(${part.fg})`) : null,
    bold: part.decoration === "bold",
  }));
}

function visibleTabs(text: string): string {
  return text.split("\t").map(visible).join("    ");
}
