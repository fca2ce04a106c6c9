/** Two experiments, line by line. Pure. */
import { UNKNOWN } from "../format/units";
import { FIGURES, type Figure, figureText, parameterName, valueText } from "./figures";
import { numbersOf } from "./levels";

export interface ComparedFigure {
  name: string;
  left: string;
  right: string;
  /** Of the second against the first: "12 % less". */
  difference: string;
  tone: "good" | "bad" | undefined;
}

type Parameters = Readonly<Record<string, unknown>>;

/** Parameters that either has; those that differ first. */
export function comparedParameters(left: Parameters, right: Parameters) {
  return [...new Set([...Object.keys(left), ...Object.keys(right)])]
    .map((name) => {
      const [one, other] = [valueText(left[name]), valueText(right[name])];
      return { name: parameterName(name), left: one, right: other, differs: one !== other };
    })
    .sort((a, b) => Number(b.differs) - Number(a.differs));
}

export function comparedFigures(left: unknown, right: unknown): ComparedFigure[] {
  const [one, other] = [numbersOf(left), numbersOf(right)];
  return FIGURES.filter(({ name }) => name in one || name in other).map((figure) => ({
    name: figure.label,
    left: figureText(one[figure.name], figure),
    right: figureText(other[figure.name], figure),
    ...differenceOf(one[figure.name], other[figure.name], figure),
  }));
}

function differenceOf(
  one: number | undefined,
  other: number | undefined,
  figure: Figure,
): Pick<ComparedFigure, "difference" | "tone"> {
  if (!one || other === undefined) return { difference: UNKNOWN, tone: undefined };
  const part = other / one - 1;
  const percent = Math.round(100 * Math.abs(part));
  if (percent === 0) return { difference: "the same", tone: undefined };
  const better = part > 0 === figure.higherIsBetter;
  return { difference: `${percent} % ${part > 0 ? "more" : "less"}`, tone: better ? "good" : "bad" };
}
