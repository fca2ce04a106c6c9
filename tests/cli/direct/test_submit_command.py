"""Scripts and commands that are submitted without the model: the same as with it, or left to it."""

from pathlib import Path
from typing import Any

import pytest

from corral.cli.app import Corral
from corral.cli.commands.job_options import SubmitFlags
from corral.cli.commands.running import SubmitCommand
from corral.cli.direct.submit_command import plain_body
from corral.cli.jobs.flags import filled, options_of, spell
from corral.cli.reading import read
from corral.cli.scripts.script import read_script
from corral.client import Client
from corral.client.submitting.request import submission
from corral.wire import to_plain


def body_of(words: list[str]) -> dict[str, Any] | None:
    """What is sent without the model."""
    given = read(Corral, "corral", ["submit", *words]).value()
    assert isinstance(given, SubmitCommand)
    return plain_body(given.words, given.flags, after_dashes=given.after_dashes)


def with_model(path: str, *arguments: str, flags: SubmitFlags) -> Any:
    script = read_script(path, arguments)
    options = options_of(filled(flags, script.flags), Client("/nowhere"))
    return to_plain(
        submission(script.command, options, script=True, script_text=script.text, spell=spell), compact=True
    )


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/sh\ntrue\n",
        "#!/bin/sh\n#CORRAL --gpus 2 --time 2h\n\n# words\n#CORRAL --gpus 1 --name 'two words'  # why\ntrue\n",
        "#!/usr/bin/env python3\n#CORRAL --env A=1 --env B=2 --hold\nprint(1)\n",
        "#!/bin/bash -l\r\n#CORRAL --priority 3\r\necho html yaml\r\n",
    ],
)
@pytest.mark.parametrize("mode", [0o644, 0o755])
def test_a_plain_script_is_sent_as_with_the_model(text: str, mode: int, tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_bytes(text.encode())
    path.chmod(mode)
    flags = SubmitFlags(priority=7, env=["C=3"])
    sent = body_of(["--priority", "7", "--env", "C=3", str(path), "--lr", "1"])
    assert sent == with_model(str(path), "--lr", "1", flags=flags)
    assert sent is not None
    assert sent["script"] is True


@pytest.mark.parametrize(
    "text",
    [
        "true\n", "#!\ntrue\n", "#!/bin/sh\n#SBATCH --gpus=1\ntrue\n", "#!/bin/sh\ntrue\n#CORRAL --gpus 1\n",
        "#!/bin/sh\n#CORRAL --gpus 0.5\n", "#!/bin/sh\n#CORRAL --gpus 'two\n", "#!/bin/sh\n#CORRAL --gpuz 2\n",
        "#!/bin/sh\n#CORRAL --json\n", "#!/bin/sh\n#CORRAL --gpus 2 true\n", "#!/bin/sh\nmpirun true\n",
        "#!/bin/sh\n#CORRAL --image a/b\n", "#!/bin/sh\n#CORRAL --env A\n",
    ],
)  # fmt: skip
def test_a_script_of_which_more_is_to_be_said_is_left_to_the_model(text: str, tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_text(text)
    assert body_of([str(path)]) is None


@pytest.mark.parametrize("line", ["no-such-script.sh", "-", "/", "--env A -- true", "--image a/b -- true"])
def test_what_is_no_plain_script_or_command_is_left_to_the_model(line: str) -> None:
    assert body_of(line.split()) is None


def test_a_dash_is_standard_input_also_where_a_file_is_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "-").write_text("#!/bin/sh\ntrue\n")
    monkeypatch.chdir(tmp_path)
    assert body_of(["-"]) is None
    assert body_of(["./-"]) is not None
