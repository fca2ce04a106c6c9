"""An advice names each option as whoever follows it gives it."""

import pytest

from corral.core.model.audience import Audience, Option


@pytest.mark.parametrize("option", Option)
def test_every_option_is_named_to_everybody_with_its_value_or_what_stands_for_one(option: Option) -> None:
    assert Audience.COMMAND_LINE.option(option, "1") == f"{option.flag} 1"
    for audience in (Audience.POD, Audience.PAGE):
        for said in (audience.option(option), audience.option(option, "1"), audience.called(option)):
            assert said
            assert "--" not in said
            assert "{" not in said


def test_a_size_of_memory_is_a_quantity_of_kubernetes_in_a_manifest_alone() -> None:
    assert Audience.POD.option(Option.HOST_MEMORY, "8G") == "a memory limit of 8Gi"
    assert Audience.PAGE.option(Option.HOST_MEMORY, "8G") == "host memory: 8G"
