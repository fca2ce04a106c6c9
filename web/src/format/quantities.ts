/** Reads amounts as people write them, by the rules of the command line. Null is what cannot be read. */

const SECONDS: Record<string, number> = { s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800 };
const MIB: Record<string, number> = { K: 1 / 1024, M: 1, G: 1024, T: 1024 * 1024 };
const DECIMAL = String.raw`\d{1,15}(?:\.\d{1,20})?`;
const DURATION = new RegExp(`^(?:${DECIMAL}[smhdw])+$`);
const MEMORY = new RegExp(`^(${DECIMAL})([KMGT])(?:IB?|B)?$`);

/** Seconds of "90s", "2h", "1d12h"; a number needs its unit. */
export function parseDurationS(text: string): number | null {
  const compact = text.replaceAll(/\s/g, "");
  if (!DURATION.test(compact)) return null;
  let sum = 0;
  for (const [, number, unit] of compact.matchAll(new RegExp(`(${DECIMAL})([smhdw])`, "g"))) {
    sum += Number(number) * (SECONDS[unit ?? ""] ?? Number.NaN);
  }
  return sum > 0 ? sum : null;
}

/** MiB of "512M", "20G", "1.5GiB": powers of 1024. */
export function parseMemoryMib(text: string): number | null {
  const found = MEMORY.exec(text.replaceAll(/\s/g, "").toUpperCase());
  const mib = found ? rounded(Number(found[1]) * (MIB[found[2] ?? ""] ?? Number.NaN)) : 0;
  return mib > 0 ? mib : null;
}

/** The nearest whole number, of two the even one: as the server rounds. */
function rounded(value: number): number {
  const below = Math.floor(value);
  return value - below === 0.5 ? below + (below % 2) : Math.round(value);
}

export const NOT_A_DURATION = "Write a number and a unit, such as 90s, 30m, 2h or 1d12h.";
export const NOT_A_SIZE = "Write a number and a unit, such as 512M or 20G.";
