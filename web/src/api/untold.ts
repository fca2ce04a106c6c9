/** Fields of a job's row that events leave out, as a new row has them. By `make web-types` from `JobRow`. */
import type { Schemas } from "./client";

export const UNTOLD = {
  command: [],
  wait: null,
  expected_start: null,
  expected_start_is: null,
  eviction: null,
  params: {},
} satisfies Partial<Schemas["JobRow"]>;
