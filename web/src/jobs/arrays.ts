/** Reads arrays and the values of parameters as people write them, by the rules of the command line. */
import type { Schemas } from "../api/client";

/** No array has more elements, and no parameter more values. */
export const MOST_ELEMENTS = 10_000;

/** What cannot be read; the message says what to write. */
export class NotReadable extends Error {}

const SPAN = /^(\d{1,15})(?:-(\d{1,15})(?::(\d{1,15}))?)?$/;

/** "0-9", "0,3,5-7", "0-10:2", each with "%N" for N at a time. Throws `NotReadable`. */
export function parseArray(text: string): Schemas["ArraySpec"] {
  const [body = "", limit, ...more] = text.trim().split("%");
  if (more.length || (limit !== undefined && !/^[1-9]\d{0,8}$/.test(limit)))
    throw new NotReadable("The number after % is how many run at a time, such as 0-9%2.");
  const indices = new Set<number>();
  let size = 0;
  for (const part of body.split(",")) {
    const found = SPAN.exec(part.trim());
    if (!found) throw new NotReadable("Write 0-9, 0,3,5-7 or 0-10:2.");
    const first = Number(found[1]);
    const last = Number(found[2] ?? first);
    const step = Number(found[3] ?? 1);
    if (last < first || step < 1) throw new NotReadable(`${part.trim()} is empty: a range must go up.`);
    size += Math.floor((last - first) / step) + 1;
    if (size > MOST_ELEMENTS) throw tooMany("An array");
    for (let index = first; index <= last; index += step) indices.add(index);
  }
  return { indices: [...indices].sort((a, b) => a - b), limit: limit === undefined ? null : Number(limit) };
}

/** Lines "lr=0.1,0.01" and "seed=0..4": the values of each parameter by its name. Throws `NotReadable`. */
export function parseParams(text: string): Record<string, string[]> {
  const params: [string, string[]][] = [];
  for (const line of text.split("\n").filter((each) => each.trim())) {
    const equals = line.indexOf("=");
    const name = line.slice(0, equals).trim();
    if (equals < 0 || !name) throw new NotReadable("Write a line for each parameter, such as lr=0.1,0.01.");
    if (params.some(([known]) => known === name)) throw new NotReadable(`${name} is given twice.`);
    params.push([name, valuesOf(name, line.slice(equals + 1))]);
  }
  // Not an object literal: "__proto__" is a name like any other.
  return Object.fromEntries(params);
}

const VALUE = /\s*(?:"((?:[^"]|"")*)"|([^",][^,]*)?)\s*(?:,|$)/y;
const RANGE = /^(-?\d{1,15})\.\.(-?\d{1,15})(?:\.\.(\d{1,15}))?$/;

function valuesOf(name: string, text: string): string[] {
  const values: string[] = [];
  let at = 0;
  while (at <= text.length) {
    VALUE.lastIndex = at;
    const found = VALUE.exec(text);
    if (!found) throw new NotReadable(`A quote is missing in the values of ${name}.`);
    const more =
      found[1] === undefined ? spread(name, (found[2] ?? "").trim()) : [found[1].replaceAll('""', '"')];
    if (!more[0]) throw new NotReadable(`${name} has an empty value.`);
    if (values.length + more.length > MOST_ELEMENTS) throw tooMany(name);
    values.push(...more);
    if (!found[0].endsWith(",")) break;
    at = VALUE.lastIndex;
  }
  return values;
}

/** The numbers of a range, both ends included, up or down; anything else is a value. */
function spread(name: string, plain: string): string[] {
  const found = RANGE.exec(plain);
  if (!found) return [plain];
  const first = Number(found[1]);
  const last = Number(found[2]);
  const step = Number(found[3] ?? 1);
  if (step < 1) throw new NotReadable(`The step of ${plain} must be 1 or more.`);
  const size = Math.floor(Math.abs(last - first) / step) + 1;
  if (size > MOST_ELEMENTS) throw tooMany(name);
  const sign = last >= first ? step : -step;
  return Array.from({ length: size }, (_, at) => String(first + at * sign));
}

function tooMany(what: string): NotReadable {
  return new NotReadable(`${what} has at most ${MOST_ELEMENTS.toLocaleString("en")} of them.`);
}
