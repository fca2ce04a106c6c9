import { type Dispatch, memo, type ReactNode, type SetStateAction, useMemo, useState } from "react";
import { type Column, inOrder, inSight, nextOrder, type Order, STEP } from "./tableRows";

const ROW_PX = 37;
const MANY = 200;

type Choose = Dispatch<SetStateAction<ReadonlySet<string>>>;

/** Which rows are chosen, by their keys; those that may not be chosen have no box. */
export interface Selection<T> {
  chosen: ReadonlySet<string>;
  mayChoose: (row: T) => boolean;
  choose: Choose;
  /** What a row is called in the label of its box. */
  nameOf: (row: T) => string;
  /** The keys of all that the box of a row chooses, where that is more than itself. */
  keysOf?: (row: T) => readonly string[];
}

/**
 * A table whose columns sort. Of many rows only those in sight are drawn, and of these anew only those that are another
 * object than before: so `columns`, `keyOf`, `keysOf` and `choose` must stay the same.
 */
export function DataTable<T>({
  rows,
  columns,
  label,
  keyOf,
  below,
  selection,
}: {
  rows: readonly T[];
  columns: readonly Column<T>[];
  label: string;
  keyOf: (row: T) => string;
  /** The rows that stand below one, in the same order. */
  below?: (row: T) => readonly T[];
  selection?: Selection<T>;
}) {
  const [order, setOrder] = useState<Order | null>(null);
  const [top, setTop] = useState(0);
  const all = useMemo(() => {
    const above = inOrder(rows, columns, order);
    return below ? above.flatMap((row) => [row, ...inOrder(below(row), columns, order)]) : above;
  }, [rows, columns, order, below]);
  const many = all.length > MANY;
  const { first, end } = many
    ? inSight(top, all.length, Math.ceil(window.screen.height / ROW_PX))
    : { first: 0, end: all.length };
  return (
    <section
      className="table-box"
      data-many={many || undefined}
      tabIndex={0}
      aria-label={label}
      onScroll={({ currentTarget }) => setTop(Math.floor(currentTarget.scrollTop / ROW_PX / STEP) * STEP)}
    >
      <table aria-rowcount={all.length + 1}>
        <thead>
          <tr>
            {selection && <ChooseAll rows={rows} keyOf={keyOf} selection={selection} />}
            {columns.map((column) => (
              <Head
                key={column.id}
                column={column}
                order={order}
                onSort={() => setOrder(nextOrder(rows, column, order))}
              />
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr style={{ height: first * ROW_PX }} />}
          {all.slice(first, end).map((row, at) => (
            <Row
              key={keyOf(row)}
              row={row}
              at={first + at + 2}
              columns={columns}
              choice={selection && (selection.mayChoose(row) ? selection.nameOf(row) : null)}
              chosen={selection ? howChosen(selection, keysIn(row, keyOf, selection)) : "none"}
              keysOf={selection?.keysOf}
              keyOf={keyOf}
              choose={selection?.choose}
            />
          ))}
          {end < all.length && <tr style={{ height: (all.length - end) * ROW_PX }} />}
        </tbody>
      </table>
    </section>
  );
}

interface RowProps<T> {
  row: T;
  /** Its place in the table, of which the head is the first. */
  at: number;
  columns: readonly Column<T>[];
  /** What its box is called; null where it may not be chosen, undefined where no row may. */
  choice: string | null | undefined;
  chosen: HowChosen;
  keyOf: (row: T) => string;
  keysOf: Selection<T>["keysOf"];
  choose: Choose | undefined;
}

type HowChosen = "all" | "some" | "none";

function howChosen<T>({ chosen }: Selection<T>, keys: readonly string[]): HowChosen {
  const [first, ...others] = keys;
  const has = first !== undefined && chosen.has(first);
  if (!chosen.size) return "none";
  return others.every((key) => chosen.has(key) === has) ? (has ? "all" : "none") : "some";
}

function keysIn<T>(
  row: T,
  keyOf: (row: T) => string,
  { keysOf }: Pick<Selection<T>, "keysOf">,
): readonly string[] {
  return keysOf ? keysOf(row) : [keyOf(row)];
}

function DrawnRow<T>({ row, at, columns, choice, chosen, keyOf, keysOf, choose }: RowProps<T>) {
  return (
    <tr aria-rowindex={at}>
      {choice !== undefined && (
        <td>
          {choice !== null && (
            <input
              type="checkbox"
              aria-label={`Choose ${choice}`}
              checked={chosen === "all"}
              ref={(box) => {
                if (box) box.indeterminate = chosen === "some";
              }}
              onChange={(event) => choose?.(withKeys(keysIn(row, keyOf, { keysOf }), event.target.checked))}
            />
          )}
        </td>
      )}
      {columns.map((column) => (
        <td key={column.id} className={classOf(column)}>
          {shown(column, row)}
        </td>
      ))}
    </tr>
  );
}

const Row = memo(DrawnRow) as typeof DrawnRow;

const withKeys = (keys: readonly string[], chosen: boolean) => (before: ReadonlySet<string>) => {
  const after = new Set(before);
  for (const key of keys) {
    if (chosen) after.add(key);
    else after.delete(key);
  }
  return after;
};

function shown<T>(column: Column<T>, row: T): ReactNode {
  return column.cell ? column.cell(row) : column.value?.(row);
}

function ChooseAll<T>({
  rows,
  keyOf,
  selection: { chosen, mayChoose, choose, keysOf },
}: {
  rows: readonly T[];
  keyOf: (row: T) => string;
  selection: Selection<T>;
}) {
  const choosable = () => rows.filter(mayChoose).flatMap((row) => keysIn(row, keyOf, { keysOf }));
  const all = chosen.size > 0 && choosable().length === chosen.size;
  return (
    <th>
      <input
        type="checkbox"
        aria-label="Choose all"
        checked={all}
        onChange={() => choose(new Set(all ? [] : choosable()))}
      />
    </th>
  );
}

function Head<T>({ column, order, onSort }: { column: Column<T>; order: Order | null; onSort: () => void }) {
  const sorted = order?.id === column.id ? (order.descending ? "descending" : "ascending") : "none";
  return (
    <th className={classOf(column)} aria-sort={column.value ? sorted : undefined}>
      {column.value ? (
        <button type="button" onClick={onSort}>
          {column.header}
          {MARK[sorted]}
        </button>
      ) : (
        column.header
      )}
    </th>
  );
}

const MARK = { ascending: " ↑", descending: " ↓", none: "" };

function classOf<T>(column: Column<T>): string | undefined {
  return [column.numeric && "number", column.wide && "hide-narrow"].filter(Boolean).join(" ") || undefined;
}
