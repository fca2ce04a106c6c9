from dataclasses import dataclass
from typing import Annotated

import pytest

from corral.core.model.errors import Refused
from corral.core.model.field import Field
from corral.declared.field_limits import check_lengths, check_ranges, schema_limits


@dataclass(frozen=True)
class Asked:
    count: Annotated[int | None, Field(least=1, most=9, hint="9 is all", called="number")] = None
    seconds: Annotated[float, Field(above=0, below=10)] = 1.0
    name: Annotated[str, Field(shortest=1, longest=5)] = "a"
    word: Annotated[str | None, Field(among=("a", "b"))] = None
    names: Annotated[tuple[str, ...], Field(longest=3)] = ()
    indices: Annotated[tuple[int, ...], Field(shortest=1, least=0, most=7)] = (0,)
    free: int = 0


def test_a_number_out_of_its_range_is_refused_by_the_name_that_messages_have_for_it() -> None:
    check_ranges(Asked())
    check_ranges(Asked(count=9, free=-5))
    with pytest.raises(Refused, match=r"^number must be from 1 to 9, not 10 \(9 is all\)$"):
        check_ranges(Asked(count=10))


def test_the_description_of_the_api_has_the_limits_that_are_checked() -> None:
    assert schema_limits(Asked) == {
        "count": {"minimum": 1, "maximum": 9},
        "seconds": {"exclusiveMinimum": 0, "exclusiveMaximum": 10},
        "name": {"minLength": 1, "maxLength": 5},
        "word": {"enum": ["a", "b"]},
        "names": {"maxItems": 3},
        "indices": {"minItems": 1, "items": {"type": "integer", "minimum": 0, "maximum": 7}},
    }


def test_a_text_or_a_list_that_is_too_long_says_by_how_much() -> None:
    check_lengths(Asked(name="abcde"))
    with pytest.raises(Refused, match=r"^name: it has 6 characters; at most 5 are allowed$"):
        check_lengths(Asked(name="abcdef"))
    with pytest.raises(Refused, match=r"^names: it has 4 entries; at most 3 are allowed$"):
        check_lengths(Asked(names=("a", "b", "c", "d")))
