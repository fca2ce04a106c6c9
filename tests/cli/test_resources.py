"""How `corral resources` lists other systems' resource names, and how they are given."""

import pytest

from corral.cli import screen
from corral.cli.site.resources import resource_lines
from corral.client import ResourceNameRow
from corral.client.language import in_own_language
from tests.e2e.box import Box

ROWS = [
    ResourceNameRow(
        "a/core", "a", default="20", descriptions={"en": "Hundredths of a GPU, of which 100 are a whole one, " * 2}
    ),
    ResourceNameRow("a/memory", "a", required=True, descriptions={"zh": "显存\x1b[2J"}),
    ResourceNameRow("b", "b"),
]


def test_names_fit_a_terminal_and_those_that_are_needed_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "room", lambda: 80)
    monkeypatch.setenv("LC_ALL", "C")
    assert resource_lines(ROWS) == [
        "NAME      GROUP  DEFAULT",
        "a/core    a           20",
        "    Hundredths of a GPU, of which 100 are a whole one, Hundredths of a GPU, of",
        "    which 100 are a whole one,",
        "a/memory  a           -*",
        "    显存\\x1b[2J",
        "b         b            -",
    ]


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"LANG": "zh_CN.UTF-8"}, "中"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "en_US.UTF-8"}, "E"),
        ({"LANG": "zh", "LC_ALL": ""}, "中"),
        ({"LC_MESSAGES": "zh_TW", "LANG": "de_DE"}, "中"),
        ({"LANG": "de_DE.UTF-8"}, "E"),
        ({}, "E"),
    ],
)
def test_a_description_is_in_the_language_of_the_locale(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], text: str
) -> None:
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert in_own_language({"en": "E", "zh": "中"}) == text
    assert in_own_language({}) is None


def test_a_name_alone_is_its_default_and_a_refusal_describes_the_name(box: Box) -> None:
    listed = {row["name"]: row for row in box.json("resources", "--json")}
    assert listed["cuda.device"]["default"] == "1"
    assert "cuda.device" in box.ok("resources")
    asked = box.json("submit", "--hold", "--json", "--resource", "cuda.device", "--", "true")
    assert box.json("show", asked["id"], "--json")["request"]["devices"] == 1
    refused = box.run("submit", "--resource", "cuda.device=1.5", "--", "true", cwd=None, LC_ALL="zh_CN.UTF-8")
    assert "not a whole number; ask for 1 (整块 GPU 的数量)" in refused.stderr
