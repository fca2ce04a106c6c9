import {
  type ColumnDef,
  flexRender,
  getCoreRowModel,
  getSortedRowModel,
  type SortingState,
  useReactTable,
} from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useRef, useState } from "react";

declare module "@tanstack/react-table" {
  // eslint-disable-next-line @typescript-eslint/no-unused-vars -- the library's interface has both
  interface ColumnMeta<TData, TValue> {
    /** Numbers stand at the right. */
    numeric?: boolean;
    /** Left out where the page is narrow. */
    wide?: boolean;
  }
}

const ROW_PX = 37;
const MANY = 200;

/** A table whose columns sort. Of many rows only those in sight are drawn. */
export function DataTable<T>({
  rows,
  columns,
  label,
  keyOf,
  sorted = [],
}: {
  rows: T[];
  columns: ColumnDef<T, unknown>[];
  label: string;
  keyOf: (row: T) => string;
  sorted?: SortingState;
}) {
  const [sorting, setSorting] = useState<SortingState>(sorted);
  const table = useReactTable({
    data: rows,
    columns,
    state: { sorting },
    onSortingChange: setSorting,
    getRowId: keyOf,
    getCoreRowModel: getCoreRowModel(),
    getSortedRowModel: getSortedRowModel(),
  });
  const box = useRef<HTMLDivElement>(null);
  const all = table.getRowModel().rows;
  const many = all.length > MANY;
  const virtual = useVirtualizer({
    count: all.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
    enabled: many,
  });
  const seen = virtual.getVirtualItems();
  const drawn = many ? seen.map((item) => all[item.index]).filter((row) => row !== undefined) : all;
  const above = many ? (seen[0]?.start ?? 0) : 0;
  const below = many ? virtual.getTotalSize() - (seen.at(-1)?.end ?? 0) : 0;
  return (
    <section
      className="table-box"
      ref={box}
      tabIndex={0}
      aria-label={label}
      style={many ? { maxHeight: "70vh" } : {}}
    >
      <table aria-rowcount={all.length + 1}>
        <thead>
          {table.getHeaderGroups().map((group) => (
            <tr key={group.id}>
              {group.headers.map((header) => (
                <th
                  key={header.id}
                  className={classOf(header.column.columnDef)}
                  aria-sort={ARIA_SORT[String(header.column.getIsSorted())]}
                >
                  {header.column.getCanSort() ? (
                    <button type="button" onClick={header.column.getToggleSortingHandler()}>
                      {flexRender(header.column.columnDef.header, header.getContext())}
                      {MARK[String(header.column.getIsSorted())]}
                    </button>
                  ) : (
                    flexRender(header.column.columnDef.header, header.getContext())
                  )}
                </th>
              ))}
            </tr>
          ))}
        </thead>
        <tbody>
          {above > 0 && <tr style={{ height: above }} />}
          {drawn.map((row) => (
            <tr key={row.id} style={many ? { height: ROW_PX } : {}}>
              {row.getVisibleCells().map((cell) => (
                <td key={cell.id} className={classOf(cell.column.columnDef)}>
                  {flexRender(cell.column.columnDef.cell, cell.getContext())}
                </td>
              ))}
            </tr>
          ))}
          {below > 0 && <tr style={{ height: below }} />}
        </tbody>
      </table>
    </section>
  );
}

const ARIA_SORT: Record<string, "ascending" | "descending" | "none"> = {
  asc: "ascending",
  desc: "descending",
  false: "none",
};
const MARK: Record<string, string> = { asc: " ↑", desc: " ↓", false: "" };

function classOf<T>(column: ColumnDef<T, unknown>): string {
  return [column.meta?.numeric ? "number" : "", column.meta?.wide ? "hide-narrow" : ""].join(" ").trim();
}
