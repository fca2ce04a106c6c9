import { expect, it } from "vitest";
import type { Device, Job, Node } from "../api/queries";
import { chosenDevices, nodeRows } from "./nodeRows";

const device = (fields: Partial<Device>) =>
  ({
    uuid: "GPU-0",
    node: "a",
    parent: null,
    state: "free",
    means: "timeslice",
    held_as: "timeslice",
    holders: [],
    memory_used_mib: 10,
    memory_total_mib: 100,
    utilization_pct: 50,
    ...fields,
  }) as Device;
const node = (name: string) => ({ name, state: "ready" }) as Node;
const held = (job: string, user: string) => [{ job, user, share_milli: 1000, memory_mib: null }];

it("leaves the devices of a user, a project, a node and of some means", () => {
  const devices = [
    device({ uuid: "1", held_as: "exclusive", holders: held("7", "ann") }),
    device({ uuid: "2", held_as: "mps", node: "b", holders: held("8", "bob") }),
    device({ uuid: "3" }),
  ];
  const jobs = [{ id: "7", project: "vision" }] as Job[];
  const ids = (filter: Parameters<typeof chosenDevices>[2]) =>
    chosenDevices(devices, jobs, filter).map((each) => each.uuid);
  expect(ids({})).toEqual(["1", "2", "3"]);
  expect(ids({ user: "bob" })).toEqual(["2"]);
  expect(ids({ project: "vision" })).toEqual(["1"]);
  expect(ids({ means: "vgpu" })).toEqual(["2", "3"]);
  expect(ids({ means: "pgpu" })).toEqual(["1"]);
  expect(ids({ node: "a", means: "vgpu" })).toEqual(["3"]);
});

it("adds up what a node has, and does not count a slice beside its device", () => {
  const slice = device({ uuid: "MIG-1", parent: "1", memory_used_mib: 5 });
  const [row] = nodeRows([node("a")], [device({ uuid: "1" }), slice], {});
  expect([row?.usedMib, row?.totalMib, row?.availableMib]).toEqual([10, 100, 90]);
});

it("knows no sum of what is not known of one device", () => {
  const [row] = nodeRows([node("a")], [device({}), device({ uuid: "2", memory_used_mib: null })], {});
  expect([row?.usedMib, row?.availableMib, row?.totalMib]).toEqual([null, null, 200]);
});

it("has nodes without devices, but not where the filter leaves them none", () => {
  expect(nodeRows([node("a"), node("b")], [device({})], {})).toHaveLength(2);
  expect(nodeRows([node("a"), node("b")], [device({})], { user: "ann" })).toHaveLength(1);
});
