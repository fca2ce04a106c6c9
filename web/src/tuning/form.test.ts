import { expect, it } from "vitest";
import { EMPTY, fieldOf, parseParameters, readTask, specOf, STARTS, withPreset } from "./form";

it("reads lists by what their values are, and ranges", () => {
  const text = "tp=1,2\nmem=0.85, 0.9\nlora=true,false\ndtype=fp8,auto\nseqs=1..256 log\nfraction=0.8..0.95";
  expect(parseParameters(text)).toEqual({
    tp: [1, 2],
    mem: [0.85, 0.9],
    lora: [true, false],
    dtype: ["fp8", "auto"],
    seqs: { type: "integer", low: 1, high: 256, log: true },
    fraction: { type: "continuous", low: 0.8, high: 0.95 },
  });
  expect(Object.keys(parseParameters("__proto__=1"))).toEqual(["__proto__"]);
});

it.each([
  ["tp", "such as"],
  ["tp=", "no value"],
  ["tp=1\ntp=2", "twice"],
  ["tp=1,,2", "empty"],
])("says what is wrong with %j", (text, told) => {
  expect(() => parseParameters(text)).toThrow(told);
});

it("makes the task that its file would be", () => {
  const form = { ...EMPTY, model: "/models/llama/", parameters: "tp=1,2", ttft: "0.5", p99: "3" };
  expect(specOf(form).spec).toEqual({
    task_name: "llama",
    model: { id_or_path: "/models/llama/" },
    base_runtime: "vllm",
    parameters: { tp: [1, 2] },
    optimization: {
      strategy: "grid_search",
      objective: "maximize_throughput",
      timeout_per_iteration: 1800,
    },
    benchmark: {
      traffic_scenarios: ["D(1000,200)"],
      num_concurrency: [1, 8, 32],
      max_time_per_iteration: 2,
      max_requests_per_iteration: 500,
    },
    slo: { ttft: { threshold: 0.5 }, latency: { p99: { threshold: 3 } } },
    max_parallel: 1,
  });
});

it("asks for GPUs by the keys of a task's file", () => {
  const form = {
    ...{ ...EMPTY, model: "m", parameters: "tp=1", gpuModel: "A100, H100", node: "gpu-[01-03,07]" },
    ...{
      device: "GPU-1, GPU-2",
      minMemory: "40G",
      label: "zone=a rack=3",
      prefer: "zone=b",
      exclusive: "yes",
    },
  };
  expect(specOf(form).spec).toMatchObject({
    ...{ gpu_model: ["A100, H100"], node: ["gpu-[01-03,07]"], device: ["GPU-1", "GPU-2"] },
    ...{ min_memory: "40G", label: { zone: "a", rack: "3" }, prefer: { zone: "b" }, exclusive: true },
  });
  expect(specOf({ ...form, label: "zone" }).errors.label).toContain("zone=a");
  expect(fieldOf("min_memory")).toBe("minMemory");
});

it("tries presets beside parameters, or without them", () => {
  const chosen = withPreset(withPreset("", "balanced", true), "single-gpu", true);
  const form = { ...EMPTY, model: "m", parallelPresets: chosen };
  expect(specOf(form).spec).toMatchObject({
    parameters: {},
    parallel_config: { presets: ["balanced", "single-gpu"] },
  });
  expect(withPreset(chosen, "balanced", false)).toBe("single-gpu");
});

it("asks nothing before there is a model and something to try, or while a field cannot be read", () => {
  expect(specOf(EMPTY)).toEqual({ spec: null, errors: {} });
  const made = specOf({ ...EMPTY, model: "m", parameters: "tp=1", minutes: "soon", timeout: "later" });
  expect(made.spec).toBeNull();
  expect(Object.keys(made.errors).sort()).toEqual(["minutes", "timeout"]);
});

it("has starts that can be read", () => {
  for (const { parameters } of STARTS)
    expect(Object.keys(parseParameters(parameters)).length).toBeGreaterThan(1);
});

it("finds the field of what the server refused", () => {
  expect(fieldOf("parameters.tp-size")).toBe("parameters");
  expect(fieldOf("benchmark.traffic_scenarios")).toBe("scenarios");
  expect(fieldOf("model.id_or_path")).toBe("model");
  expect(fieldOf("storage")).toBeNull();
  expect(fieldOf(null)).toBeNull();
});

it("reads a task's file, and says where it is none", () => {
  expect(readTask('{"task_name": "a"}').spec).toEqual({ task_name: "a" });
  expect(readTask("[]").error).toContain("object");
  expect(readTask("{").error).toContain("not JSON");
  expect(readTask(" ")).toEqual({ spec: null, error: null });
});
