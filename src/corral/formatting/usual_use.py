"""Words for what earlier jobs say of a job."""

from corral.core.model.answers.predicted_use import PredictedUse
from corral.core.model.units import format_duration, format_memory


def usual_use(told: PredictedUse) -> str:
    """One line: "usually: runs 50m (9 of 10 at most 1h 10m), uses at most 30G of a GPU, GPUs busy 40 % of the time"."""
    parts = []
    if told.run_s is not None:
        most = format_duration(told.run_s.p90)
        parts.append(f"runs {format_duration(told.run_s.median)} (9 of 10 jobs at most {most})")
    if told.memory_mib is not None:
        parts.append(f"uses at most {format_memory(round(told.memory_mib.most))} of a GPU")
    if told.used_pct is not None:
        parts.append(f"GPUs busy {told.used_pct.median:.0f} % of the time")
    return f"usually: {', '.join(parts)}"
