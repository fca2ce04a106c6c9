"""The words of what earlier jobs say: only of what is known."""

from corral.core.model.answers.predicted_use import PredictedUse, PredictedValue
from corral.formatting.usual_use import usual_use


def test_each_known_value_has_its_words_and_no_other() -> None:
    run_s, mib, pct = (
        PredictedValue(9, 3000, 4200, 4500),
        PredictedValue(9, 1, 2, 30_720),
        PredictedValue(9, 40, 50, 51),
    )
    assert usual_use(PredictedUse(run_s, mib, pct)) == (
        "usually: runs 50m (9 of 10 jobs at most 1h 10m), uses at most 30G of a GPU, GPUs busy 40 % of the time"
    )
    assert usual_use(PredictedUse(memory_mib=mib)) == "usually: uses at most 30G of a GPU"
