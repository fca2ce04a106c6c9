import { describe, expect, it } from "vitest";
import { commandLine, wordsOf } from "./commandLine";
import { EMPTY, fieldOf, formLike, type JobForm, submissionOf } from "./form";
import { submitLine } from "./submitLine";

const form = (fields: Partial<JobForm>): JobForm => ({ ...EMPTY, command: "python train.py", ...fields });
const made = (fields: Partial<JobForm>) => submissionOf(form(fields));

it("makes a submission of what was filled in", () => {
  const { submission, errors } = made({
    gpus: "0.5",
    memory: "20G",
    time: "1d12h",
    priority: "3",
    model: "A100, H100",
  });
  expect(errors).toEqual({});
  expect(submission).toMatchObject({
    command: ["python", "train.py"],
    request: { gpus: "0.5", memory_mib: 20_480, models: ["A100", "H100"] },
    time_limit_s: 129_600,
    priority: 3,
  });
});

it("asks by another system's resource names in place of GPUs", () => {
  const { submission, errors } = made({ resources: "cuda.shares=0.5, mem=4g,cuda.device" });
  expect(errors).toEqual({});
  expect(submission?.resources).toEqual({ "cuda.shares": "0.5", mem: "4g", "cuda.device": "" });
  expect(submission?.request).toEqual({ models: [] });
  expect(made({ resources: "cuda.shares=0.5", gpus: "2" }).errors.resources).toContain("Empty this field");
  expect(made({ resources: "=2" }).errors.resources).toContain("NAME=AMOUNT");
  expect(fieldOf("cuda.shares", form({ resources: "cuda.shares=0.337" }))).toBe("resources");
  expect(submitLine(form({ resources: "cuda.shares=0.5" }))).toBe(
    "corral submit --resource cuda.shares=0.5 -- python train.py",
  );
});

it("leaves to the site what was not filled in", () => {
  const { submission } = made({});
  expect(submission?.priority).toBeNull();
  expect(submission?.time_limit_s).toBeNull();
  for (const field of ["queue", "project", "workdir"]) expect(submission).not.toHaveProperty(field);
});

it("asks for the part of a GPU that the memory comes to where no number is given", () => {
  expect(made({ gpus: "", memory: "20G" }).submission?.request).toMatchObject({
    share_of_memory: true,
    memory_mib: 20_480,
  });
});

it.each([
  ["time", "90"],
  ["time", "0s"],
  ["memory", "20"],
  ["priority", "high"],
  ["env", "NO_EQUALS"],
  ["array", "9-0"],
  ["array", "0-9%0"],
  ["array", "0-20000"],
  ["params", "lr"],
  ["params", "lr=0.1,,0.2"],
  ["params", "seed=0..99999"],
  ["command", "echo 'open"],
] as const)("says beside the field %s that %s cannot be read, and submits nothing", (field, text) => {
  const { submission, errors } = made({ [field]: text });
  expect(Object.keys(errors)).toEqual([field]);
  expect(errors[field]).toBeTruthy();
  expect(submission).toBeNull();
});

it("submits nothing, and finds nothing wrong, while there is no command", () => {
  expect(made({ command: "  " })).toEqual({ submission: null, errors: {} });
});

it("reads arrays and parameters as the command line does", () => {
  expect(made({ array: "0-4:2,7%2" }).submission?.array).toEqual({ indices: [0, 2, 4, 7], limit: 2 });
  expect(made({ params: 'lr=0.1,"a,b"\nseed=3..1\n' }).submission?.sweep).toEqual({
    params: { lr: ["0.1", "a,b"], seed: ["3", "2", "1"] },
  });
  expect(made({ array: "0-1", params: "a=1" }).errors.params).toMatch(/indices or parameters/);
});

it("keeps a script in a variable, and runs it with what its first line names", () => {
  const script = "#!/usr/bin/env python3\nprint(1)\n";
  const { submission } = made({ runs: "script", script });
  expect(submission?.env).toEqual({ CORRAL_SCRIPT: script });
  expect(submission?.command?.[2]).toContain("exec /usr/bin/env python3 ");
  expect(submission?.script).toBe(true);
  expect(made({ runs: "script", script: "print(1)" }).errors.script).toMatch(/#!/);
});

it("finds the field that the server refused", () => {
  const here = form({});
  expect(fieldOf("request.gpus", here)).toBe("gpus");
  expect(fieldOf("memory_mib", here)).toBe("memory");
  expect(fieldOf("command[0]", here)).toBe("command");
  expect(fieldOf("command", form({ runs: "script" }))).toBe("script");
  expect(fieldOf("disk_mib", here)).toBeNull();
  expect(fieldOf(null, here)).toBeNull();
});

describe("command lines", () => {
  it.each([
    ["python  train.py --lr 0.1", ["python", "train.py", "--lr", "0.1"]],
    [`sh -c 'echo "a b"'`, ["sh", "-c", 'echo "a b"']],
    [`a "b \\" c" d\\ e ''`, ["a", 'b " c', "d e", ""]],
    ["a \\\n b", ["a", "b"]],
  ])("%s has these words", (line, words) => expect(wordsOf(line)).toEqual(words));

  it("come back as they were, whatever is in a word", () => {
    for (const word of ["", "a b", "it's", '"', "$HOME", "`x`", "a\nb", "\\", "ü", "!", "-", "{lr}"])
      expect(wordsOf(commandLine(["x", word]))).toEqual(["x", word]);
  });
});

it("tells the command that does the same", () => {
  expect(submitLine(form({ gpus: "2", time: "2h", env: "A=b c", params: "lr=0.1,0.2" }))).toBe(
    "corral submit --gpus 2 --time 2h --env 'A=b c' --param lr=0.1,0.2 -- python train.py",
  );
  expect(submitLine(form({ runs: "script", script: "#!/bin/sh\nls\n" }))).toBe(
    "corral submit --gpus 1 - <<'END_OF_SCRIPT'\n#!/bin/sh\nls\nEND_OF_SCRIPT",
  );
});

it("fills in what another job was submitted with", () => {
  const like = formLike({
    command: ["sh", "-c", "echo 'hi'"],
    spec: { name: "n", queue: "q", project: "p", priority: 4, time_limit_s: 7200, workdir: "/w" },
    request: { devices: 1, share_milli: 500, split_milli: 500, memory_mib: null, models: ["A100"] },
  });
  expect(like).toMatchObject({
    gpus: "0.5",
    memory: "",
    time: "2h",
    priority: "4",
    model: "A100",
    workdir: "/w",
  });
  expect(submissionOf(like).submission?.command).toEqual(["sh", "-c", "echo 'hi'"]);
});
