"""What a shell has made of braces is no command."""

import pytest

from corral.cli.scripts.split_words import refuse_assignment
from corral.core.model.errors import Refused


def test_an_assignment_in_the_place_of_a_command_is_refused_with_how_to_quote_it() -> None:
    with pytest.raises(Refused, match=r"X=b is neither a command nor a script; .* quote it, as in --env 'X={a,b}'"):
        refuse_assignment("X=b")
    for command in ("train.py", "./a=b", "-x=1", "2=3"):
        refuse_assignment(command)
