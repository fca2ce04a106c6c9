/** What a table shows of its rows: their order, and which of very many are in sight. Pure. */
import type { ReactNode } from "react";

type Value = string | number | null | undefined;

/** A column. Without `value` it does not sort; without `cell` it shows its value. */
export interface Column<T> {
  id: string;
  header: ReactNode;
  value?: (row: T) => Value;
  cell?: (row: T) => ReactNode;
  /** Numbers stand at the right. */
  numeric?: boolean;
  /** Left out where the page is narrow. */
  wide?: boolean;
}

export interface Order {
  id: string;
  descending: boolean;
}

/** Rows in the order of a column, in that they came in where two are alike. What has no value stands at the end. */
export function inOrder<T>(
  rows: readonly T[],
  columns: readonly Column<T>[],
  order: Order | null,
): readonly T[] {
  const value = columns.find((column) => column.id === order?.id)?.value;
  if (!order || !value) return rows;
  const sign = order.descending ? -1 : 1;
  return rows
    .map((row) => ({ row, value: value(row) ?? null }))
    .sort((a, b) => {
      if (a.value === b.value) return 0;
      if (a.value === null || b.value === null) return a.value === null ? 1 : -1;
      return sign * compared(a.value, b.value);
    })
    .map(({ row }) => row);
}

const IN_WORDS = new Intl.Collator("en", { numeric: true });

function compared(a: string | number, b: string | number): number {
  return typeof a === "number" && typeof b === "number" ? a - b : IN_WORDS.compare(String(a), String(b));
}

/** What a click on a column's head makes of the order: numbers go down first, words up; the third click ends it. */
export function nextOrder<T>(rows: readonly T[], column: Column<T>, now: Order | null): Order | null {
  const first = rows.map((row) => column.value?.(row)).find((value) => value != null);
  const downFirst = typeof first === "number";
  if (now?.id !== column.id) return { id: column.id, descending: downFirst };
  return now.descending === downFirst ? { id: column.id, descending: !downFirst } : null;
}

/** The top row counts in steps of so many, so that a small scroll draws nothing. */
export const STEP = 8;
/** So many rows are drawn above and below those in sight. */
const BEYOND = 12;

/** The rows to draw, `first` to before `end`, of which `top`, or one of the STEP behind it, is the first in sight. */
export function inSight(top: number, count: number, heightInRows: number): { first: number; end: number } {
  const first = Math.max(0, Math.min(top, count) - BEYOND);
  return { first, end: Math.min(count, top + STEP + heightInRows + BEYOND) };
}
