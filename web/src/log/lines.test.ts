import { expect, it } from "vitest";
import {
  coloured,
  finder,
  LogLines,
  marked,
  MOST_COLUMNS,
  MOST_LINES,
  MOST_MARKS,
  MOST_SPANS,
  plain,
} from "./lines";

const bytes = (text: string) => new TextEncoder().encode(text);

it("puts pieces together that were cut anywhere, also within a letter", () => {
  const log = new LogLines();
  for (const byte of bytes("größe\nzwei")) log.take(Uint8Array.of(byte));
  expect(log.all()).toEqual(["größe", "zwei"]);
});

it("shows of a progress bar what was written last", () => {
  const log = new LogLines();
  log.take(bytes("10 %\r50 %\r100 %\r\nnext\n"));
  expect(log.all()).toEqual(["100 %", "next"]);
});

it("shows of a long progress bar that no line ends what was written last", () => {
  const log = new LogLines();
  for (let done = 0; done < 2_000; done++) log.take(bytes(`\r${done} ${"#".repeat(80)}`));
  expect(log.all()).toEqual([`1999 ${"#".repeat(80)}`]);
  log.take(bytes("\r"));
  log.take(bytes("done\n"));
  expect(log.all()).toEqual(["done"]);
});

it("marks what is found, also in ten thousand places and in letters that change their length", () => {
  expect(marked("a.b.c", finder("."))).toEqual(["a", ".", "b", ".", "c"]);
  expect(marked("İxX", finder("x"))).toEqual(["İ", "x", "", "X", ""]);
  expect(marked("all", finder(""))).toEqual(["all"]);
  const parts = marked("y".repeat(MOST_COLUMNS), finder("Y"));
  expect(parts).toHaveLength(2 * MOST_MARKS + 1);
  expect(parts.join("")).toHaveLength(MOST_COLUMNS);
});

it("searches what can be seen, and no colours", () => {
  expect(plain("\u001b[31mre\u001b[0md \u001b]8;;http://x\u0007link")).toBe("red link");
});

it("makes no more elements of a line than a browser can lay out", () => {
  const spans = coloured("\u001b[31mx\u001b[32my".repeat(2_000));
  expect(spans).toHaveLength(MOST_SPANS + 1);
  expect(spans.map((span) => span.text).join("")).toBe("xy".repeat(2_000));
});

it("keeps so many lines, and cuts a line that is too long", () => {
  const log = new LogLines();
  log.take(bytes("x\n".repeat(MOST_LINES + 5)));
  expect([log.all().length, log.dropped]).toEqual([MOST_LINES, 5]);
  log.take(bytes(`${"y".repeat(MOST_COLUMNS + 1)}\n`));
  expect(log.all().at(-1)).toHaveLength(MOST_COLUMNS);
});

it("reads colours, and leaves out what else a terminal would do", () => {
  expect(
    coloured("a\u001b[31mred\u001b[0m\u001b[2Jb")
      .map((span) => span.text)
      .join(""),
  ).toBe("aredb");
  expect(coloured("\u001b]0;title\u0007a\u001b]8;;http://x\u001b\\b\u001b(Bc")[0]?.text).toBe("abc");
  const colourOf = (code: string) => coloured(`\u001b[${code}mx\u001b[0m`)[0]?.colour;
  expect(["31", "91", "38;5;202"].map(colourOf)).toEqual([
    "var(--ansi-red)",
    "var(--ansi-red)",
    "rgb(255, 95, 0)",
  ]);
});

it("never makes markup of a line", () => {
  expect(coloured("<b>\u001b[1m<i>")[0]?.text).toBe("<b>");
});
