/** Which nodes, devices or jobs are compared, as an address has them. */

/** More lines than this in one chart cannot be told apart. */
export const MOST_COMPARED = 8;

/** The ids of "a,b,c", each once, the first `MOST_COMPARED` of them. */
export function idsOf(text: string | undefined): string[] {
  const ids = (text ?? "").split(",").map((id) => id.trim());
  return [...new Set(ids.filter(Boolean))].slice(0, MOST_COMPARED);
}

export const withId = (ids: readonly string[], id: string): string | undefined => textOf([...ids, id]);

export const withoutId = (ids: readonly string[], id: string): string | undefined =>
  textOf(ids.filter((each) => each !== id));

const textOf = (ids: readonly string[]): string | undefined => idsOf(ids.join(",")).join(",") || undefined;
