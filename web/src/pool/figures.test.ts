import { expect, it } from "vitest";
import { kpiName, kpiValue, otherLimits, quotaOf } from "./figures";

const kpi = (value: number | null, unit: string) => ({ value, unit, formula: "" });

it("writes key figures with their unit, and what was not measured as unknown", () => {
  expect(kpiValue(kpi(null, "%"))).toBe("–");
  expect(kpiValue(kpi(41.26, "%"))).toBe("41.3 %");
  expect(kpiValue(kpi(0, "failures"))).toBe("0 failures");
  expect(kpiValue(kpi(3_700, "s"))).toBe("1h 1m");
  expect(kpiValue(kpi(0.26, "s"))).toBe("0.3 s");
  expect(kpiValue(kpi(50, "C"))).toBe("50 °C");
  expect(kpiName("gpu_utilization")).toBe("GPU utilization");
  expect(kpiName("error_rates")).toBe("Error rates");
});

it("writes quotas as the command line does", () => {
  expect(quotaOf({})).toBe("–");
  expect(quotaOf({ share_milli: 4000, borrow_milli: 2500 })).toBe("4 +2.5");
  expect(otherLimits({ running: 1, gpu_hours: 100, period_s: 604_800 })).toEqual([
    "1 job running",
    "100 GPU-hours in 7d",
  ]);
});
