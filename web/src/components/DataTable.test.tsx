// @vitest-environment jsdom
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { DataTable } from "./DataTable";
import type { Column } from "./tableRows";

interface Item {
  id: string;
  size: number;
}

const drawn = vi.fn((item: Item) => item.id);
const COLUMNS: Column<Item>[] = [
  { id: "id", header: "Item", value: (item) => item.id, cell: drawn },
  { id: "size", header: "Size", value: (item) => item.size, numeric: true },
];
const idOf = (item: Item) => item.id;
const listed = Array.from({ length: 10_000 }, (_, at) => ({ id: `item ${at}`, size: at % 100 }));
const table = (rows: readonly Item[]) => (
  <DataTable rows={rows} columns={COLUMNS} label="Items" keyOf={idOf} />
);
const firstIds = () =>
  [...document.querySelectorAll("tbody tr[aria-rowindex] td:first-child")].map((cell) => cell.textContent);

beforeEach(() => {
  drawn.mockClear();
});
afterEach(cleanup);

it("draws of ten thousand rows those in sight alone", () => {
  render(table(listed));
  expect(screen.getByRole("table").getAttribute("aria-rowcount")).toBe("10001");
  expect(drawn.mock.calls.length).toBeLessThan(100);
});

it("draws anew the one row of which something is new, and none where the news are of rows out of sight", () => {
  const { rerender } = render(table(listed));
  drawn.mockClear();
  rerender(table(listed.map((item) => (item.id === "item 3" ? { ...item, size: 7 } : item))));
  expect(drawn.mock.calls).toEqual([[{ id: "item 3", size: 7 }]]);
  drawn.mockClear();
  rerender(table([...listed, { id: "new", size: 0 }]));
  expect(drawn.mock.calls).toEqual([[listed[3]]]);
});

it("draws on a scroll those rows alone that came into sight", () => {
  render(table(listed));
  const box = screen.getByRole("region", { name: "Items" });
  const before = firstIds();
  drawn.mockClear();
  box.scrollTop = 37 * 24;
  fireEvent.scroll(box);
  const fresh = firstIds().filter((id) => !before.includes(id));
  expect(fresh.length).toBeGreaterThan(0);
  expect(drawn.mock.calls.map(([item]) => item.id)).toEqual(fresh);
});

it("sorts numbers down, then up, and then no longer", () => {
  render(table(listed.slice(0, 120)));
  const head = screen.getByRole("columnheader", { name: /Size/ });
  const order = () => {
    fireEvent.click(screen.getByRole("button", { name: /Size/ }));
    return [head.getAttribute("aria-sort"), firstIds()[0]];
  };
  expect([order(), order(), order()]).toEqual([
    ["descending", "item 99"],
    ["ascending", "item 0"],
    ["none", "item 0"],
  ]);
});

it("keeps rows below the one that they belong to, in the order of the column", () => {
  const below = (item: Item) =>
    item.id === "item 1" ? [3, 4].map((size) => ({ id: `below ${size}`, size })) : [];
  render(<DataTable rows={listed.slice(0, 3)} columns={COLUMNS} label="Items" keyOf={idOf} below={below} />);
  expect(firstIds()).toEqual(["item 0", "item 1", "below 3", "below 4", "item 2"]);
  fireEvent.click(screen.getByRole("button", { name: /Size/ }));
  expect(firstIds()).toEqual(["item 2", "item 1", "below 4", "below 3", "item 0"]);
});

it("lets the box of a row choose all that it stands for, and shows that some of it is chosen", () => {
  const choose = vi.fn();
  const boxes = (chosen: string[]) => (
    <DataTable
      rows={listed.slice(0, 1)}
      columns={COLUMNS}
      label="Items"
      keyOf={idOf}
      selection={{
        chosen: new Set(chosen),
        mayChoose: () => true,
        choose,
        nameOf: (item) => item.id,
        keysOf: () => ["a", "b"],
      }}
    />
  );
  const { rerender } = render(boxes([]));
  const box = screen.getByRole<HTMLInputElement>("checkbox", { name: "Choose item 0" });
  const state = () => [box.checked, box.indeterminate];
  const states = [[], ["a"], ["b"], ["a", "b"]].map((chosen) => {
    rerender(boxes(chosen));
    return state();
  });
  expect(states).toEqual([
    [false, false],
    [false, true],
    [false, true],
    [true, false],
  ]);
  rerender(boxes([]));
  fireEvent.click(box);
  const change = choose.mock.calls[0]?.[0] as (before: ReadonlySet<string>) => ReadonlySet<string>;
  expect([...change(new Set(["c"]))]).toEqual(["c", "a", "b"]);
});
