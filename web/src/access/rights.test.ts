import { expect, it } from "vitest";
import type { Alert, Session, Silence } from "../api/queries";
import { mayAcknowledge, mayAdminister, mayEndSilence, maySilence } from "./rights";

const session = (fields: Partial<Session>): Session => ({
  user: "ann",
  admin: false,
  overseer: false,
  scope: "submit",
  expires_at: null,
  ...fields,
});
const alert = (fields: Partial<Alert>): Alert => ({
  id: "1",
  rule: "idle-allocation",
  severity: "warning",
  state: "firing",
  subject: "job 7",
  since: 0,
  fired_at: 0,
  value: null,
  measure: null,
  sentence: "",
  labels: { job: "7", user: "ann" },
  group: "",
  to: [],
  silenced: false,
  told_at: null,
  acknowledged_by: null,
  acknowledged_at: null,
  resolved_at: null,
  resolved_by: null,
  ...fields,
});
const silence: Silence = {
  id: "1",
  match: "*",
  by: "ann",
  made_at: 0,
  until: 1,
  reason: "",
  user: "ann",
  alerts: 0,
};

it("offers a user what is about their own jobs, and nothing else", () => {
  const ann = session({});
  expect(mayAcknowledge(ann, alert({}))).toBe(true);
  expect(maySilence(ann, alert({ labels: { job: "8", user: "bob" } }))).toBe(false);
  expect(mayAcknowledge(ann, alert({ labels: { node: "gpu-01" } }))).toBe(false);
  expect(mayAdminister(ann)).toBe(false);
});

it("offers an administrator every alert", () => {
  expect(mayAcknowledge(session({ admin: true }), alert({ labels: { node: "gpu-01" } }))).toBe(true);
});

it("offers nothing to a token that is to look only", () => {
  const looking = session({ admin: true, scope: "read" });
  expect(mayAcknowledge(looking, alert({}))).toBe(false);
  expect(mayEndSilence(looking, silence)).toBe(false);
  expect(mayAdminister(looking)).toBe(false);
});

it("offers nobody what has been done, or is over", () => {
  expect(mayAcknowledge(session({ admin: true }), alert({ acknowledged_by: "bob" }))).toBe(false);
  expect(maySilence(session({ admin: true }), alert({ state: "resolved" }))).toBe(false);
});

it("lets who made a silence end it", () => {
  expect(mayEndSilence(session({}), silence)).toBe(true);
  expect(mayEndSilence(session({ user: "bob" }), silence)).toBe(false);
});
