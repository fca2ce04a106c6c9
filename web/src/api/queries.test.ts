// @vitest-environment jsdom
import { onlineManager } from "@tanstack/react-query";
import { afterEach, expect, it } from "vitest";
import { makeQueryClient } from "./queries";

afterEach(() => onlineManager.setOnline(true));

it("asks the server of this machine also where the browser is offline", async () => {
  onlineManager.setOnline(false);
  const read = makeQueryClient().fetchQuery({ queryKey: ["here"], queryFn: () => Promise.resolve("answer") });
  await expect(read).resolves.toBe("answer");
});
