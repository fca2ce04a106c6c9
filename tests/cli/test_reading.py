"""How the words of a command line are read."""

import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.cli.app import Corral, all_commands
from corral.cli.commands.job_options import SubmitFlags
from corral.cli.declaring import HELP, VERSION, DeclaredCommand, choice, flag, number, path, text, whole
from corral.cli.reading import LacksValue, Line, UnknownCommand, UnknownOption, UsageError, read, read_options


class Paint(DeclaredCommand, runs="nowhere.paint", examples=("corral paint red",)):
    """Paint something."""

    colour: str = choice(choices=("red", "blue"), help="Its colour.", required=True)
    things: list[str] | None = text(metavar="[THING]...", help="What to paint.", many=True)
    wet: bool = flag("--wet", "-w", help="Leave it wet.")
    fast: bool = flag("-f", "--fast", help="Hurry.")
    coats: int = whole("--coats", "-c", help="How many coats.", default=1, least=1, most=9)
    tilt: float | None = number("--tilt", help="Degrees.", least=-1.5)
    tag: list[str] | None = text("--tag", "-t", help="A tag; may be repeated.", many=True)
    brush: Path | None = path("--brush", help="The brush.", alone="/brush")
    shop: str | None = text("--shop", help="Where the paint is from.", env="PAINT_SHOP")


class Follow(DeclaredCommand, runs="nowhere.follow", examples=("corral follow -- ls",), follows=True):
    """Run something."""

    words: list[str] = text(metavar="COMMAND...", help="What.", required=True, many=True)
    tag: str | None = text("--tag", help="A tag.")


def painted(line: str) -> dict[str, object]:
    """What was said, but for what was left as it is."""
    value, unsaid = Line(("paint",), Paint, line.split()).value(), Paint()
    return {name: said for name, said in vars(value).items() if said != getattr(unsaid, name)}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("red", {}),
        ("red a b -w c", {"things": ["a", "b", "c"], "wet": True}),
        ("--coats 2 red", {"coats": 2}),
        ("red --coats=2 --coats 3", {"coats": 3}),
        ("red -c2", {"coats": 2}),
        ("red -wfc 4", {"wet": True, "fast": True, "coats": 4}),
        ("red -wc4 -tx", {"wet": True, "coats": 4, "tag": ["x"]}),
        ("red --tag=a=b --tag -c -t --", {"tag": ["a=b", "-c", "--"]}),
        ("red --tilt -1", {"tilt": -1.0}),
        ("red --tilt=1e0 -", {"tilt": 1.0, "things": ["-"]}),
        ("-- red -w --", {"things": ["-w", "--"]}),
        ("red --tag=", {"tag": [""]}),
        ("red --brush", {"brush": Path("/brush")}),
        ("red --brush -w", {"brush": Path("/brush"), "wet": True}),
        ("red --brush thick", {"brush": Path("thick")}),
    ],
)
def test_options_are_written_in_each_usual_way(line: str, said: dict[str, object]) -> None:
    expected = {"colour": "red", **said}
    assert painted(line) == expected


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "Missing argument 'red|blue'. Choose from: red, blue."),
        ("green", "red|blue: 'green' is not one of 'red', 'blue'"),
        ("red --coats", "Option '--coats' requires an argument."),
        ("red -c", "Option '-c' requires an argument."),
        ("red --coats x", "--coats: 'x' is not a whole number from 1 to 9"),
        ("red -c10", "--coats: 10 is not a whole number from 1 to 9"),
        ("red -c=3", "--coats: '=3' is not a whole number from 1 to 9"),
        ("red --coats 1.5", "--coats: '1.5' is not a whole number from 1 to 9"),
        ("red --tilt -2", "--tilt: -2.0 is not a number of at least -1.5"),
        ("red --tilt up", "--tilt: 'up' is not a number of at least -1.5"),
        ("red --wet=1", "Option '--wet' does not take a value."),
        ("red --nosuch", "there is no flag --nosuch"),
        ("red --we", "there is no flag --we"),
        ("red -wx", "there is no flag -x"),
        ("red --coats x --nosuch", "there is no flag --nosuch"),
    ],
)
def test_a_mistake_is_told_with_its_option(line: str, told: str) -> None:
    with pytest.raises(UsageError) as raised:
        painted(line)
    assert str(raised.value) == told


def test_words_that_nothing_takes_are_named() -> None:
    for words, told in (("ps 17", "argument (17)"), ("ps -a 17 18 --json", "arguments (17 18)")):
        with pytest.raises(UsageError) as raised:
            read(Corral, "corral", words.split()).value()
        assert str(raised.value) == f"Got unexpected extra {told}"


def test_a_command_of_another_program_keeps_its_options() -> None:
    for line, words, after_dashes in (
        ("--tag a ls -l --tag b", ["ls", "-l", "--tag", "b"], False),
        ("--tag a -- ls -- -l", ["ls", "--", "-l"], True),
        ("--tag=a -- -l", ["-l"], True),
        ("--tag a ls -- -l", ["ls", "--", "-l"], False),
        ("--tag a - -l", ["-", "-l"], False),
    ):
        value = Line(("follow",), Follow, line.split()).value()
        assert value == Follow(words=words, tag="a", after_dashes=after_dashes)


def test_a_variable_counts_where_the_option_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAINT_SHOP", "corner")
    assert painted("red")["shop"] == "corner"
    assert painted("red --shop=mill")["shop"] == "mill"
    monkeypatch.setenv("PAINT_SHOP", "")
    assert "shop" not in painted("red")


def test_a_file_that_may_not_be_read_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *asked: False)  # root may read every file
    assert painted(f"red --brush {tmp_path}/new")["brush"] == tmp_path / "new"
    with pytest.raises(UsageError, match=r"--brush: Path .* is not readable"):
        painted(f"red --brush {tmp_path}")


def test_groups_lead_to_the_commands_below_them() -> None:
    line = read(Corral, "corral", ["token", "create", "--expires", "7d"])
    assert (line.path, vars(line.value())["expires"]) == (("corral", "token", "create"), "7d")
    alone = read(Corral, "corral", ["alerts", "--all", "--json"])
    assert (alone.path, vars(alone.value())["history"]) == (("corral", "alerts"), True)
    with pytest.raises(UnknownCommand) as raised:
        read(Corral, "corral", ["token", "nosuch"])
    assert (raised.value.name, raised.value.path) == ("nosuch", ("corral", "token"))
    assert read(Corral, "corral", ["token"]).rest == []


def test_help_and_version_stand_for_the_command() -> None:
    assert HELP in read(Corral, "corral", ["--help", "ps"]).given
    assert VERSION in read(Corral, "corral", ["-V", "ps", "--nosuch"]).given
    line = read(Corral, "corral", ["ps", "--limit", "many", "-h"])
    assert HELP in line.given
    with pytest.raises(UnknownOption):
        read(Corral, "corral", ["ps", "--nosuch", "-h"])
    asked = read(Corral, "corral", ["run", "ls", "--help"])
    assert HELP not in asked.given


def test_lines_of_a_script_are_options_and_nothing_else() -> None:
    assert read_options(SubmitFlags, ["--gpus", "0.5", "--hold"]) == SubmitFlags(gpus="0.5", hold=True)
    for words in (["--help"], ["--json"], ["--gpus", "0.333"], ["train.sh"]):
        with pytest.raises(UsageError):
            read_options(SubmitFlags, words)


def test_a_line_that_ends_with_an_option_says_which_lacks_its_value() -> None:
    with pytest.raises(LacksValue) as raised:
        read(Corral, "corral", ["ps", "--json", "--sort"])
    assert (raised.value.option.name, raised.value.path) == ("sort", ("corral", "ps"))


VALUES = [
    "17",
    "0",
    "a,b",
    "",
    "-",
    "--",
    "-5",
    "-x",
    "x=y",
    "2h",
    "1_000",
    "9" * 12,
    "1e3",
    "é",
    "3 ",
    "0.5",
    "--json",
]


@st.composite
def said(draw: st.DrawFn) -> dict[str, object]:
    """What may be said of Paint."""
    value = st.one_of(st.sampled_from(VALUES), st.text(max_size=4))
    plain = value.filter(lambda word: word == "-" or not word.startswith("-"))
    options = {
        "wet": st.just(True),
        "fast": st.just(True),
        "coats": st.integers(1, 9),
        "tilt": st.floats(-1.5, 9),
        "tag": st.lists(value, min_size=1, max_size=3),
        "shop": value,
        "things": st.lists(plain, min_size=1, max_size=3),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(options)), unique=True))
    return {"colour": draw(st.sampled_from(["red", "blue"])), **{name: draw(options[name]) for name in chosen}}


@settings(max_examples=150, deadline=None)
@given(said(), st.randoms(use_true_random=False))
def test_what_is_said_is_read_in_whichever_way_and_order_it_is_written(
    values: dict[str, object], chance: random.Random
) -> None:
    value = Line(("paint",), Paint, written(values, chance)).value()
    assert value == Paint(**values)


def written(values: dict[str, object], chance: random.Random) -> list[str]:
    """The words that say it: options with one of their names, before, between or behind the arguments."""
    groups: list[list[str]] = []
    for option in Paint.declared:
        if option.names and option.name in values:
            found = values[option.name]
            for one in found if isinstance(found, list) else [found]:
                groups.append(option_words(chance.choice(option.names), one, chance))
    things = values.get("things", [])
    assert isinstance(things, list)
    arguments = [[str(values["colour"])], *([one] for one in things)]
    words: list[str] = []
    while groups or arguments:
        words += (groups if not arguments or (groups and chance.random() < 0.5) else arguments).pop(0)
    return words


def option_words(name: str, value: object, chance: random.Random) -> list[str]:
    if value is True:
        return [name]
    if name.startswith("--"):
        return [f"{name}={value}"] if chance.random() < 0.5 else [name, str(value)]
    return [f"{name}{value}"] if value != "" and chance.random() < 0.5 else [name, str(value)]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(all_commands())),
    st.lists(st.one_of(st.sampled_from(VALUES), st.text(max_size=5)), max_size=6),
)
def test_any_words_are_read_or_refused(name: str, words: list[str]) -> None:
    try:
        line = read(Corral, "corral", [name, *words])
        if line.command.runs and HELP not in line.given:
            assert isinstance(line.value(), line.command)
    except UsageError as error:
        refused = error
    else:
        return
    assert str(refused)
    assert refused.path[:2] == ("corral", name)
