import { useQueries, type UseQueryResult } from "@tanstack/react-query";
import { useState } from "react";
import { type History, historyQuery } from "../api/historyQueries";
import type { Range } from "../api/historyQueries";
import type { Compared } from "../pool/choices";
import type { Charted } from "./series";

/** What several nodes, devices or jobs were like, as far as it was answered; the same object while nothing is new. */
export class Histories {
  constructor(
    readonly ids: readonly string[],
    readonly range: Range,
    private readonly results: readonly UseQueryResult<History>[],
  ) {}

  /** Those that are there. */
  get found(): { id: string; history: History }[] {
    return this.ids.flatMap((id, at) => {
      const history = this.results[at]?.data;
      return history ? [{ id, history }] : [];
    });
  }

  get failed(): { id: string; error: Error; retry: () => void }[] {
    return this.ids.flatMap((id, at) => {
      const result = this.results[at];
      if (!result?.error || result.data) return [];
      return [{ id, error: result.error, retry: () => void result.refetch() }];
    });
  }

  get isPending(): boolean {
    return this.results.some((result) => result.isPending);
  }
}

/** Not a plain object, for the points of plain ones would all be compared with those before. */
class Answers {
  readonly reading: boolean;

  constructor(readonly results: UseQueryResult<History>[]) {
    this.reading = results.some((result) => result.isFetching);
  }
}

const together = (results: UseQueryResult<History>[]) => new Answers(results);

/**
 * The histories of `ids` over a range. While some of them are read those before stay, and then all are new at once: charts
 * that were drawn anew for each answer would be drawn as often as there are lines.
 */
export function useHistories(
  what: Compared,
  ids: readonly string[],
  range: Range,
  charted: readonly Charted[],
): Histories {
  const series = charted.map((each) => each.series);
  const answers = useQueries({
    queries: ids.map((id) => historyQuery(what, id, range, series)),
    combine: together,
  });
  const [shown, show] = useState({ answers, histories: new Histories(ids, range, answers.results) });
  if (answers !== shown.answers && (!answers.reading || shown.answers.results.length === 0)) {
    const next = { answers, histories: new Histories(ids, range, answers.results) };
    show(next);
    return next.histories;
  }
  return shown.histories;
}
