/** A log as lines: what comes in pieces is cut at line ends, and only so many of the newest lines are kept. */
import Anser from "anser";
import { visible } from "../components/UserText";

export const MOST_LINES = 50_000;
/** A longer line is cut: a browser takes seconds to lay one out. */
export const MOST_COLUMNS = 10_000;
/** Of a line that changes its colour more often, the rest has none: each change is an element to lay out. */
export const MOST_SPANS = 200;
/** What is found more often in a line is marked so often. */
export const MOST_MARKS = 200;

// What a terminal obeys besides colours: titles and links, character sets, single letters, what moves and deletes.
const CONTROLS = /\u001b(?:\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[()][A-Z0-9]|[@-Z\\^_])/gu;
const COLOURS = /\u001b\[[0-?]*[ -/]*[@-~]/gu;

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
    this.rest = unfinished(parts.pop() ?? "");
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

/** What is kept of a line that goes on: of a progress bar its last state, and of any line so much that it is cut. */
function unfinished(line: string): string {
  return line.slice(line.lastIndexOf("\r", line.length - 2) + 1).slice(0, MOST_COLUMNS * 4);
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
  const parts = Anser.ansiToJson(line.replace(CONTROLS, ""), {
    json: true,
    remove_empty: true,
    use_classes: false,
  });
  const spans = parts.slice(0, MOST_SPANS).map((part) => ({
    text: visibleTabs(part.content),
    colour: part.fg ? (OF_THEME[part.fg] ?? `rgb(${part.fg})`) : null,
    bold: part.decoration === "bold",
  }));
  const rest = parts.slice(MOST_SPANS).map((part) => part.content);
  return rest.length ? [...spans, { text: visibleTabs(rest.join("")), colour: null, bold: false }] : spans;
}

/** The text of a line, without what only a terminal reads: a search is for what can be seen. */
export function plain(line: string): string {
  return line.includes("\u001b") ? line.replace(CONTROLS, "").replace(COLOURS, "") : line;
}

/** What finds a word in a text, whatever the case of its letters; null for no word. */
export function finder(word: string): RegExp | null {
  return word ? new RegExp(word.replace(/[\\^$.*+?()[\]{}|/]/gu, "\\$&"), "giu") : null;
}

/** A text in parts, of which every second one is what was found. */
export function marked(text: string, wanted: RegExp | null): string[] {
  if (!wanted) return [text];
  const parts: string[] = [];
  let from = 0;
  for (const found of text.matchAll(wanted)) {
    if (parts.length >= 2 * MOST_MARKS) break;
    parts.push(text.slice(from, found.index), found[0]);
    from = found.index + found[0].length;
  }
  return [...parts, text.slice(from)];
}

function visibleTabs(text: string): string {
  return text.split("\t").map(visible).join("    ");
}
