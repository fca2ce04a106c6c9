// @vitest-environment jsdom
import { render } from "@testing-library/react";
import { expect, it, vi } from "vitest";
import { ErrorBoundary } from "./Broken";

function Breaks(): never {
  throw new Error("no \u202esuch thing");
}

it("says what to do where a page cannot be drawn", () => {
  vi.spyOn(console, "error").mockImplementation(() => undefined);
  const { getByRole } = render(
    <ErrorBoundary>
      <Breaks />
    </ErrorBoundary>,
  );
  expect(getByRole("alert").textContent).toContain("no \\u202esuch thing");
  expect(getByRole("button", { name: "Load again" })).toBeTruthy();
  vi.restoreAllMocks();
});
