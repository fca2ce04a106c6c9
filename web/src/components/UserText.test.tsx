// @vitest-environment jsdom
import { render } from "@testing-library/react";
import { expect, it } from "vitest";
import { UserText, visible } from "./UserText";

it("shows what a user named, and is none of it", () => {
  const { container } = render(<UserText text="<img src=x onerror=alert(1)>" />);
  expect(container.querySelector("img")).toBeNull();
  expect(container.textContent).toBe("<img src=x onerror=alert(1)>");
});

it("shows characters that would hide or turn others", () => {
  const { container } = render(<UserText text={"a\u202eb\u0007c\u200bd"} />);
  expect(container.textContent).toBe("a\\u202eb\\u0007c\\u200bd");
});

it.each(["\u00ad", "\u034f", "\u180e", "\u3164", "\u{e0041}", "\ud800"])(
  "shows %j, which has no shape",
  (hidden) => {
    expect(visible(`a${hidden}b`)).toMatch(/^a\\u[0-9a-f]{4,5}b$/u);
  },
);

it("leaves letters of every language and signs as they are", () => {
  expect(visible("größe 訓練 نموذج é ✔️ 🚀")).toBe("größe 訓練 نموذج é ✔️ 🚀");
});
