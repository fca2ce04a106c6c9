/** Numbers as the command line writes them. What is not known is "–", never 0. */

export const UNKNOWN = "–";

/** MiB as people write it: 512M, 20G, 1.5G. */
export function memory(mib: number | null | undefined): string {
  if (mib == null) return UNKNOWN;
  if (mib < 1024) return `${Math.round(mib)}M`;
  const gib = mib / 1024;
  return Math.abs(gib - Math.round(gib)) < 0.05 || gib >= 100 ? `${Math.round(gib)}G` : `${gib.toFixed(1)}G`;
}

/** Thousandths of a GPU: 1000 is "1", 250 is "0.25". */
export function share(milli: number | null | undefined): string {
  return milli == null ? UNKNOWN : String(Number((milli / 1000).toFixed(3)));
}

export function percent(value: number | null | undefined): string {
  return value == null ? UNKNOWN : `${Math.round(value)} %`;
}

export function celsius(value: number | null | undefined): string {
  return value == null ? UNKNOWN : `${Math.round(value)} °C`;
}

export function watts(value: number | null | undefined): string {
  return value == null ? UNKNOWN : `${Math.round(value)} W`;
}

/** A part of a whole in percent, null where one of them is not known. */
export function partOf(part: number | null | undefined, whole: number | null | undefined): number | null {
  return part == null || !whole ? null : (100 * part) / whole;
}

/** The model without its maker. */
export function shortModel(name: string, migProfile?: string | null): string {
  return migProfile ?? name.replace(/^NVIDIA /, "");
}

export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** MiB in GiB, without the unit. */
export function gib(mib: number | null | undefined): string {
  return mib == null ? UNKNOWN : (mib / 1024).toFixed(1);
}

/** Hours: 0.4, 12.3, 1,240. */
export function hours(value: number | null | undefined): string {
  if (value == null) return UNKNOWN;
  return value.toLocaleString(undefined, { maximumFractionDigits: value < 100 ? 1 : 0 });
}
