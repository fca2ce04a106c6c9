import { expect, it } from "vitest";
import type { Device, Job } from "../api/queries";
import { heldDevices, holdingsByUser } from "./holdings";

const device = (uuid: string, more: Partial<Device> = {}): Device =>
  ({ uuid, holders: [], processes: [], state: "free", ...more }) as unknown as Device;
const has = (job: string, user: string, share_milli = 1000) => ({ job, user, share_milli, memory_mib: null });
const JOBS = [{ id: "7", name: "sft", started_at: 500 }] as Job[];

it("tells of each device who has it, by which job, how much of it and since when", () => {
  const [shared] = heldDevices(
    [device("a", { holders: [has("7", "alice", 500), has("8", "bob", 250)] })],
    JOBS,
  );
  expect(shared?.holders).toEqual([
    { user: "alice", job: { id: "7", name: "sft" }, outside: null, milli: 500, memoryMib: null, since: 500 },
    { user: "bob", job: { id: "8" }, outside: null, milli: 250, memoryMib: null, since: null },
  ]);
});

it("names what Corral did not start as such: processes, containers and pods", () => {
  const process = { pid: 9, user: "mallory", command: "python", memory_mib: 100, job: null, container: null };
  const inside = { ...process, user: null, container: { name: "web", image: "x/y" } };
  const [held] = heldDevices(
    [
      device("a", {
        since: 40,
        processes: [process, inside, { ...process, job: "7" }],
        pod: { namespace: "ns", name: "p", owner: "Job/train" },
      }),
    ],
    [],
  );
  expect(held?.holders.map(({ user, job, outside, since }) => [user, job, outside, since])).toEqual([
    [null, null, "pod ns/p (Job/train)", 40],
    ["mallory", null, "python, pid 9", 40],
    [null, null, "container web (x/y)", 40],
  ]);
});

it("lists the slices of a device in place of it", () => {
  const held = heldDevices([device("whole"), device("slice", { parent: "whole" })], []);
  expect(held.map((each) => each.device.uuid)).toEqual(["slice"]);
});

it("sums by user, those who hold most first and what is outside Corral last", () => {
  const process = { pid: 9, user: "carol", command: "python", memory_mib: null, job: null, container: null };
  const held = heldDevices(
    [
      device("a", { holders: [has("8", "bob", 500), has("7", "alice", 500)] }),
      device("b", { holders: [has("7", "alice")] }),
      device("c", { processes: [process, { ...process, pid: 10 }], since: 3 }),
    ],
    JOBS,
  );
  expect(
    holdingsByUser(held).map(({ user, outside, devices, milli, jobs, since }) => [
      user,
      outside,
      devices,
      milli,
      jobs.length,
      since,
    ]),
  ).toEqual([
    ["alice", false, 2, 1500, 1, 500],
    ["bob", false, 1, 500, 1, null],
    ["carol", true, 1, 1000, 0, 3],
  ]);
});
