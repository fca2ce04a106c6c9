from hypothesis import given
from hypothesis import strategies as st

from corral.features.tuner.search.front import not_beaten


def test_a_front_has_what_is_best_in_something() -> None:
    assert not_beaten([(3.0, 1.0), (2.0, 2.0), (3.0, 2.0), (1.0, 3.0), (2.0, 2.0)]) == [3, 1, 0]
    assert not_beaten([]) == []


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1))
def test_everything_is_beaten_or_equalled_by_the_front(scores: list[tuple[float, ...]]) -> None:
    front = [scores[index] for index in not_beaten(scores)]
    assert all(any(a <= x and b <= y for a, b in front) for x, y in scores)
    assert not any(a <= x and b <= y for x, y in front for a, b in front if (a, b) != (x, y))
