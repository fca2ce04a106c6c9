"""What users of other tools type leads them to what does the same here."""

import re

import pytest

from corral.cli.app import Corral, all_commands
from corral.cli.help.other_tools import _INSTEAD_OF_FLAG, COMMANDS_ELSEWHERE, FLAGS_ELSEWHERE
from corral.cli.screen import USAGE
from tests.cli.in_process import ran


def flags_of(command: str) -> set[str]:
    found = Corral.find(command)
    assert found is not None
    return {name for option in found.declared for name in option.names}


def error_of(*words: str) -> str:
    done = ran(*words)
    assert done.code == USAGE
    return " ".join(done.err.partition("Error: ")[2].split())


def test_a_command_of_another_tool_is_none_of_ours() -> None:
    assert sorted(set(COMMANDS_ELSEWHERE) & set(all_commands())) == [], (
        "remove them from cli/other_tools.py: they exist now"
    )


def test_what_is_named_instead_of_a_command_exists_with_its_flags() -> None:
    hints = {hint for hints in COMMANDS_ELSEWHERE.values() for hint in hints} | set(_INSTEAD_OF_FLAG.values())
    for typed in [words for hint in hints for words in re.findall(r"`corral ([^`]+)`", hint)]:
        command, *rest = typed.split()
        assert command in all_commands(), typed
        assert {word for word in rest if word.startswith("-")} <= flags_of(command), typed


def test_each_flag_that_a_hint_names_is_one_of_some_command_and_has_a_hint_where_it_is_meant() -> None:
    ours = {flag for command in all_commands() for flag in flags_of(command)}
    named = {name for here in FLAGS_ELSEWHERE.values() for name, _ in here}
    assert sorted(named - ours) == [], "these flags of cli/other_tools.py are those of no command"


@pytest.mark.parametrize("flag", sorted(FLAGS_ELSEWHERE))
def test_a_flag_of_another_tool_is_answered_with_flags_that_the_command_has(flag: str) -> None:
    for command in ("run", "submit", "ps", "logs"):
        known = flags_of(command)
        if flag not in known:
            told = error_of(command, flag, "1")
            named = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", told.partition(";")[2]))
            assert named <= known, (command, told)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("submit", "--mem", "4G"), "use --host-memory for memory of the host, or --gpu-mem for memory of a GPU"),
        (("run", "-c", "4"), "--cpus"),
        (("run", "--gres=gpu:2"), "--gpus"),
        (("run", "-N2"), "--gang"),
        (("run", "--detach"), "`corral submit`"),
        (("ps", "-o", "json"), "--json"),
        (("ps", "--mine"), "`corral ps --user me`"),
        (("usage", "--user", "alice"), "`corral usage --by user`"),
        (("update", "17", "--gpus", "2"), "`corral cancel` it, and `corral submit` it again"),
        (("submit", "--partion", "x"), "use --queue"),
        (("run", "--gpuz", "2"), "--gpus"),
        (("run", "--nodee", "2"), "did you mean --node?"),
        (("sqeue",), "`corral ps`"),
        (("submit", "--host-mem", "4G"), "--host-memory"),
        (("token", "create", "--expire", "1d"), "--expires"),
        (("--gpus", "2"), "there is no flag --gpus"),
        (("squeue",), "`corral ps`"),
        (("nvidia-smi",), "`corral status`"),
        (("stop", "17"), "`corral down`"),
        (("cancle",), "'cancel'"),
        (("qqqqqq",), "`corral help`"),
    ],
)
def test_a_mistyped_command_or_flag_names_the_right_one(words: tuple[str, ...], hint: str) -> None:
    assert hint in error_of(*words)


def test_a_flag_in_the_header_of_a_script_is_named_alike() -> None:
    from corral.cli.commands.job_options import SubmitFlags
    from corral.cli.jobs.flags import parse_words
    from corral.core.model.errors import Refused

    with pytest.raises(Refused, match=r"line 3: there is no flag --mem; use --host-memory"):
        parse_words(SubmitFlags, ["--mem", "4G"], "train.sh, line 3")
