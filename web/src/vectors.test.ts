/** What the server reads and writes as well: the cases are in `web/vectors`, and `tests/web/test_vectors.py` has them too. */
import { describe, expect, it } from "vitest";
import arrays from "../vectors/arrays.json";
import durations from "../vectors/durations.json";
import rights from "../vectors/rights.json";
import sizes from "../vectors/sizes.json";
import { mayAcknowledge, mayChangeJob, mayEndSilence } from "./access/rights";
import type { Alert, Session, Silence } from "./api/queries";
import { parseDurationS, parseMemoryMib } from "./format/quantities";
import { duration } from "./format/times";
import { memory } from "./format/units";
import { NotReadable, parseArray } from "./jobs/arrays";

describe("durations", () => {
  it.each(Object.entries(durations.read))("reads %j as %j", (text, seconds) =>
    expect(parseDurationS(text)).toBe(seconds),
  );
  it.each(durations.written)("writes %j as %j", (seconds, text) =>
    expect(duration(Number(seconds))).toBe(text),
  );
});

describe("sizes", () => {
  it.each(Object.entries(sizes.read))("reads %j as %j", (text, mib) =>
    expect(parseMemoryMib(text)).toBe(mib),
  );
  it.each(sizes.written)("writes %j as %j", (mib, text) => expect(memory(Number(mib))).toBe(text));
});

describe("arrays", () => {
  it.each(Object.entries(arrays.read))("reads %j as %j", (text, told) => {
    if (told === null) expect(() => parseArray(text)).toThrow(NotReadable);
    else {
      const { indices, limit } = parseArray(text);
      expect([indices.length, indices[0], indices.at(-1), limit]).toEqual([
        told.count,
        told.first,
        told.last,
        told.limit,
      ]);
    }
  });
});

describe("rights", () => {
  it.each(rights)("$user, who is $scope and admin: $admin", ({ may, ...who }) => {
    const session = who as unknown as Session;
    const labels = { job: "7", user: "ann" };
    const alert = { state: "firing", acknowledged_by: null, labels } as unknown as Alert;
    const site = { ...alert, labels: { node: "gpu-01" } } as unknown as Alert;
    expect({
      "change a job of ann": mayChangeJob(session, { user: "ann" }),
      "acknowledge an alert about a job of ann": mayAcknowledge(session, alert),
      "acknowledge an alert about a node": mayAcknowledge(session, site),
      "end a silence of ann": mayEndSilence(session, { by: "ann" } as Silence),
    }).toEqual(may);
  });
});
