import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { jobQuery } from "../../api/queries";
import type { ExperimentDetail } from "../../api/taskQueries";
import { Facts, Panel } from "../../components/Panel";
import { Empty } from "../../components/states";
import { duration } from "../../format/times";
import { courseOf, monitoringOf } from "../../tuning/levels";
import { GpuCharts, GpuLines, GpuTable } from "../job/GpuPanel";

/**
 * What the GPUs of an experiment were like while it was measured, and over the whole run of its job. The GPUs of a model
 * service have no job: the tuner has read them.
 */
export function MeasuredGpus({ row }: { row: ExperimentDetail }) {
  const found = monitoringOf(row.metrics);
  const course = useMemo(() => courseOf(row.metrics), [row.metrics]);
  const job = useQuery({ ...jobQuery(row.job_id ?? ""), enabled: row.job_id != null });
  return (
    <Panel title="GPUs while it was measured">
      {found ? (
        <>
          <Facts
            facts={[
              ["duration", duration(found.durationS)],
              ["samples", found.samples],
            ]}
          />
          <GpuTable stats={found.stats} />
        </>
      ) : (
        <Empty title="Nothing was measured">Its GPUs were not read meanwhile.</Empty>
      )}
      {job.data?.gpu_monitoring && <GpuCharts job={job.data} />}
      {course && <GpuLines history={course} of={`experiment ${row.experiment_id}`} />}
    </Panel>
  );
}
