import { keepPreviousData, useQuery, type UseQueryResult } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { answered, api } from "../../api/client";
import type { Estimate, TuningSpec } from "../../api/taskQueries";
import { Figures } from "../../components/Panel";
import { UserText } from "../../components/UserText";
import { duration } from "../../format/times";
import { hours } from "../../format/units";

const TYPING_MS = 350;

/** What a task would take, asked when nobody has typed for a moment. */
export function useEstimate(spec: TuningSpec | null): UseQueryResult<Estimate> {
  const now = JSON.stringify(spec);
  const [asked, setAsked] = useState(now);
  useEffect(() => {
    const timer = window.setTimeout(() => setAsked(now), TYPING_MS);
    return () => window.clearTimeout(timer);
  }, [now]);
  const body = JSON.parse(asked) as TuningSpec | null;
  return useQuery({
    queryKey: ["estimate", asked],
    queryFn: ({ signal }) =>
      answered(api.POST("/api/v1/tasks/estimate", { body: body as TuningSpec, signal })),
    // What was asked about a form that has changed since is of no use.
    enabled: body !== null && asked === now,
    placeholderData: keepPreviousData,
    gcTime: 10_000,
  });
}

export function EstimatePanel({
  query,
  asked,
  elsewhere,
}: {
  query: UseQueryResult<Estimate>;
  asked: boolean;
  elsewhere: string | null;
}) {
  if (elsewhere)
    return (
      <p className="banner" data-kind="bad" role="alert">
        <UserText text={elsewhere} />
      </p>
    );
  const told = query.error || !asked ? undefined : query.data;
  return (
    <div role="status" className="forecast" data-old={query.isPlaceholderData || undefined}>
      {told ? (
        <Told estimate={told} />
      ) : (
        <p className="quiet">
          {!asked
            ? "Enter a model and parameters to see how many GPUs and hours the task takes."
            : query.error
              ? "Correct the marked fields."
              : "Asking …"}
        </p>
      )}
    </div>
  );
}

function Told({ estimate }: { estimate: Estimate }) {
  const { gpus_least: least, gpus_most: most } = estimate;
  return (
    <>
      <Figures
        figures={[
          {
            name: "Experiments",
            value: estimate.experiments.toLocaleString(),
            more:
              estimate.combinations == null
                ? "at most"
                : `at most, of ${estimate.combinations.toLocaleString()} combinations`,
          },
          {
            name: "GPUs of each",
            value: least === most ? most : `${least} to ${most}`,
            more: estimate.nodes_most > 1 ? `on up to ${estimate.nodes_most} nodes` : undefined,
          },
          { name: "GPU-hours", value: hours(estimate.gpu_hours), more: "at most" },
          {
            name: "Until measured",
            value: estimate.hours == null ? "never" : duration(3600 * estimate.hours),
            more: "at most",
          },
        ]}
      />
      <p className="quiet">
        Each is measured for {duration(estimate.measuring_s)} at most. Deployment and waiting for GPUs take
        additional time.
      </p>
      {estimate.notes.map((note) => (
        <p className="banner" key={note}>
          <UserText text={note} />
        </p>
      ))}
    </>
  );
}
