import { expect, it } from "vitest";
import { coloured, LogLines, MOST_COLUMNS, MOST_LINES } from "./lines";

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
