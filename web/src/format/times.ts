/** Moments and durations. The server's clock counts: `setServerNow` tells how far this browser's is off. */

let aheadS = 0;

/** What time it is at the server, in Unix seconds, when this is called. */
export function setServerNow(unixS: number): void {
  aheadS = unixS - Date.now() / 1000;
}

/** Unix seconds, by the server's clock. */
export function serverNow(): number {
  return Date.now() / 1000 + aheadS;
}

const UNITS: readonly [string, number][] = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
  ["s", 1],
];

/** Seconds in their two largest units: "2h 5m", "<1s". */
export function duration(seconds: number | null | undefined): string {
  if (seconds == null) return "–";
  if (seconds > 0 && seconds < 1) return "<1s";
  let left = Math.max(0, Math.round(seconds));
  const first = UNITS.findIndex(([, size]) => left >= size);
  if (first < 0) return "0s";
  const parts: string[] = [];
  for (const [unit, size] of UNITS.slice(first, first + 2)) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count) parts.push(`${count}${unit}`);
  }
  return parts.join(" ");
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const dayAndClock = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
});
const inFull = new Intl.DateTimeFormat(undefined, {
  year: "numeric",
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
  timeZoneName: "short",
});

/** A moment as short as it is clear: the time today, else the day too. */
export function moment(unixS: number | null | undefined, now: number = serverNow()): string {
  if (unixS == null) return "–";
  const at = new Date(unixS * 1000);
  const sameDay = at.toDateString() === new Date(now * 1000).toDateString();
  return (sameDay ? clock : dayAndClock).format(at);
}

/** A moment with its date, seconds and time zone. */
export function momentInFull(unixS: number): string {
  return inFull.format(new Date(unixS * 1000));
}

/** A moment as a field of the type datetime-local has it, by this browser's time zone, to the minute. */
export function localText(unixS: number): string {
  const at = new Date(unixS * 1000);
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day}T${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** The moment that such a field has; null where it has none. */
export function unixOf(local: string): number | null {
  const unixS = Date.parse(local) / 1000;
  return Number.isFinite(unixS) && unixS > 0 ? unixS : null;
}
