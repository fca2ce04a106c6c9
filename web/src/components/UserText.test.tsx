// @vitest-environment jsdom
import { render } from "@testing-library/react";
import { expect, it } from "vitest";
import { UserText } from "./UserText";

it("shows what a user named, and is none of it", () => {
  const { container } = render(<UserText text="<img src=x onerror=alert(1)>" />);
  expect(container.querySelector("img")).toBeNull();
  expect(container.textContent).toBe("<img src=x onerror=alert(1)>");
});

it("shows characters that would hide or turn others", () => {
  const { container } = render(<UserText text={"a\u202eb\u0007c\u200bd"} />);
  expect(container.textContent).toBe("a\\u202eb\\u0007c\\u200bd");
});
