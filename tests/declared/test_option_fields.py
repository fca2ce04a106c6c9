import subprocess
import sys
from typing import Any

import pytest

from corral.cli.commands.job_options import DeviceFlags, JobFlags, SubmitFlags
from corral.cli.declaring import Option, Options
from corral.client.options import RequestOptions
from corral.client.request import submission
from corral.declared import keywords
from corral.declared.meanings import meaning_of
from corral.declared.option_fields import DeclaredOption, options
from corral.model.errors import Refused
from corral.model.field import RESERVE, RUN, SUBMIT, Kind
from corral.model.notification import NotifyOn

TAKEN = {RESERVE: DeviceFlags, RUN: JobFlags, SUBMIT: SubmitFlags}
KINDS = {Kind.FLAG: "flag", Kind.WHOLE: "whole", Kind.NUMBER: "number"}


def command_line() -> dict[str, tuple[type[Options], Option]]:
    """Each option of a job on the command line by name, with the first class that has it."""
    found: dict[str, tuple[type[Options], Option]] = {}
    for cls in (DeviceFlags, JobFlags, SubmitFlags):
        for option in cls.declared:
            found.setdefault(option.name, (cls, option))
    return found


@pytest.mark.parametrize("option", options().values(), ids=options())
def test_a_flag_is_what_the_model_declares(option: DeclaredOption) -> None:
    cls, flag = command_line()[option.option.flag or option.name]
    assert (option.flag,) == flag.names
    assert meaning_of(option).help == flag.help
    assert option.option.metavar == flag.metavar
    assert TAKEN[option.option.on] is cls
    assert option.option.many == flag.many
    assert KINDS.get(option.kind, "text") == flag.kind


def test_no_flag_is_declared_elsewhere() -> None:
    assert {one.option.flag or one.name for one in options().values()} == set(command_line())


def test_the_keywords_of_the_client_are_those_that_the_model_declares() -> None:
    format_ = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(keywords.PATH), "-"]
    made = subprocess.run(format_, input=keywords.source(), capture_output=True, text=True, check=True)
    assert keywords.PATH.read_text() == made.stdout, "an option was changed: `make declared` writes them down anew"
    assert list(RequestOptions.__annotations__) == list(options())


def test_an_option_needs_no_more_than_its_declaration_to_reach_the_submission() -> None:
    asked = submission(
        ["true"], {"notify_on": "done,failed", "host_memory": "2G", "spread": True, "time": "1h", "queue": ""}
    )
    assert asked.notify_on == (NotifyOn.DONE, NotifyOn.FAILED)
    assert (asked.request.host_memory_mib, asked.request.spread) == (2048, True)
    assert (asked.time_limit_s, asked.queue) == (3600.0, "default")


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("notify_on", "dane", "notify_on: 'dane' is not allowed; did you mean 'done'?"),
        ("retries", -1, "retries: -1 is too small; it must be at least 0"),
        ("host_memory", "2", "host_memory: '2' is not a memory size"),
        ("output", "", "output"),
    ],
)
def test_a_value_that_an_option_cannot_have_is_refused_by_its_name(option: str, value: Any, said: str) -> None:
    with pytest.raises(Refused, match=f"^{said}".replace("?", r"\?")):
        submission(["true"], {option: value})  # type: ignore[misc]
