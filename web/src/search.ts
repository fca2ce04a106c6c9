/** What stands behind the `?` of an address, as text and in parts. */

export type Search = Record<string, unknown>;

/** Addresses are text, as people write them: a job may be called 1e3, and a user null. */
export const readSearch = (text: string): Search => Object.fromEntries(new URLSearchParams(text));

export function writtenSearch(search: Search): string {
  const given = Object.entries(search).filter(([, value]) => value !== undefined);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text && `?${text}`;
}
