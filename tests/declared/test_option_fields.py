import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from corral.cli.commands import flag_source
from corral.cli.commands.job_options import SubmitFlags
from corral.client.submitting.options import RequestOptions
from corral.client.submitting.request import submission
from corral.core.model.errors import Refused
from corral.core.model.jobs.notification import NotifyOn
from corral.declared import keywords
from corral.declared.option_fields import options


def formatted(source: str, path: Path) -> str:
    format_ = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(path), "-"]
    return subprocess.run(format_, input=source, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("made", [keywords, flag_source], ids=["keywords", "flags"])
def test_flags_and_keywords_are_those_that_the_model_declares(made: ModuleType) -> None:
    told = "an option was changed: `make declared` writes them down anew"
    assert made.PATH.read_text() == formatted(made.source(), made.PATH), told


def test_help_lists_the_options_in_an_order_that_names_no_other() -> None:
    assert set(flag_source.ORDER) <= options().keys()
    assert len(SubmitFlags.declared) == len(options()) == len(RequestOptions.__annotations__)


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
