import { expect, test } from "vitest";
import type { Findings } from "../api/taskQueries";
import { bestsOf } from "./bests";

const NOTHING: Findings = {
  scored: 0,
  importances: [],
  fronts: [],
  best_id: null,
  default_id: null,
  gain: null,
  sureness: null,
  measured_by: [],
  ties: [],
  figures: [],
  command: null,
  by_gpu_model: [],
};

test("there is one best, or one on each model of GPU, or none", () => {
  expect(bestsOf(NOTHING)).toEqual([]);
  const one = { ...NOTHING, best_id: "7", gain: "as good", sureness: "measured once", command: "corral run" };
  expect(bestsOf(one).map((best) => [best.best_id, best.gain, best.gpu_model])).toEqual([
    ["7", "as good", null],
  ]);
  const by_gpu_model = ["H100", "T4"].flatMap((gpu_model) =>
    bestsOf(one).map((best) => ({ ...best, gpu_model, best_id: gpu_model })),
  );
  expect(bestsOf({ ...NOTHING, by_gpu_model }).map((each) => each.best_id)).toEqual(["H100", "T4"]);
});
