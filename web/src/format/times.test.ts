import { describe, expect, it } from "vitest";
import { duration, localText, serverNow, setServerNow, unixOf } from "./times";

describe("duration", () => {
  it.each([
    [null, "–"],
    [0, "0s"],
    [0.2, "<1s"],
    [59, "59s"],
    [3600, "1h"],
    [7500, "2h 5m"],
    [90_061, "1d 1h"],
    [-5, "0s"],
  ])("%s is %s", (seconds, told) => expect(duration(seconds)).toBe(told));
});

it("counts by the server's clock, however wrong the browser's is", () => {
  setServerNow(Date.now() / 1000 - 3600);
  expect(Math.abs(serverNow() - (Date.now() / 1000 - 3600))).toBeLessThan(1);
  setServerNow(Date.now() / 1000);
});

it("reads a field of a moment as it wrote it, to the minute", () => {
  const at = Date.parse("2026-03-29T12:34:56Z") / 1000;
  expect(unixOf(localText(at))).toBe(at - 56);
  expect(unixOf("")).toBeNull();
});
