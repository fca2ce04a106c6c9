"""Names of jobs as people ask for them."""

from fnmatch import fnmatchcase

import pytest

from corral.core.model.jobs.name_pattern import fits


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("sweep-1", "sweep-*", True),
        ("sweep-1", "a,sweep-?", True),
        ("sweep-1", "a, sweep-1 ,b", True),
        ("sweep-1", "sweep-[!2]", True),
        ("a[1]", "a[1]", True),
        ("a,b", "a,b", True),
        ("sweep-1", "Sweep-1", False),
        ("sweep-1\n", "sweep-1", False),
        ("sweep-1", "sweep", False),
        ("", "*", True),
    ],
)
def test_a_name_fits_a_text_that_names_it_or_has_its_pattern(name: str, text: str, found: bool) -> None:
    assert fits(name, text) is found


def test_patterns_of_users_are_not_kept_for_ever() -> None:
    from corral.core.model.jobs import name_pattern

    for number in range(1000):
        assert not fits("a", f"*{number}")
    assert name_pattern._matcher.cache_info().currsize <= 256
    assert name_pattern.name_patterns.cache_info().currsize <= 64
    assert fits("a999", "a*9") == fnmatchcase("a999", "a*9")
