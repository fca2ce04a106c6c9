"""`corral help docs` shows the documents wherever Corral is installed, with links for who reads in a terminal."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from corral.cli.help.documents import documents, linked_for_terminals

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "import sys; from corral.cli import main; sys.exit(main())", "help", "docs"]
NAMES = sorted(documents())


def shown(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=60)


def test_all_documents_for_users_are_listed_by_name_and_title_and_no_decision_is() -> None:
    told = shown().stdout
    assert re.search(r"^settings +Settings$", told, re.MULTILINE)
    assert set(NAMES) == {path.stem for path in (ROOT / "docs").glob("*.md")} | {"readme"}
    assert all(re.search(rf"^{name} +\w", told, re.MULTILINE) for name in NAMES)


@pytest.mark.parametrize("name", ["clusters", "docs/clusters.md", "Clusters.md"])
def test_a_document_is_written_as_it_is_where_no_terminal_is(name: str) -> None:
    told = shown(name).stdout
    assert told.splitlines()[0] == "# Several nodes"
    assert "\033" not in told


def test_a_name_that_no_document_has_is_told_with_the_nearest() -> None:
    refused = shown("setings")
    assert (refused.returncode, refused.stderr) == (
        1,
        "corral: there is no document 'setings'; did you mean 'settings'?\n",
    )


def test_on_a_terminal_it_is_laid_out_and_goes_through_the_pager() -> None:
    terminal, other_end = pty.openpty()
    environ = {**os.environ, "PAGER": "sed s/^/paged:/"}
    with subprocess.Popen([*COMMAND, "gangs"], stdout=other_end, env=environ) as process:
        os.close(other_end)
        told = b""
        while block := _read(terminal):
            told += block
        assert process.wait(60) == 0
    os.close(terminal)
    lines = told.decode().splitlines()
    assert all(line.startswith("paged:") for line in lines)
    assert any("Gangs" in line for line in lines)
    assert not any(line.startswith("paged:```") for line in lines)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.parametrize("name", NAMES)
def test_no_link_is_left_that_only_a_browser_could_follow(name: str) -> None:
    known = documents()
    told = linked_for_terminals(known[name].read_text(), name, known)
    assert re.findall(r"\]\([^)]*\)", re.sub(r"```.*?```|`[^`]*`", "", told, flags=re.DOTALL)) == []
    for other in re.findall(r"[(:] ?`corral help docs ([\w-]+)`\)", told):
        assert other in known
    for path in re.findall(r"[(:] ?([\w./-]+) in the source\)", told):
        assert (ROOT / path).exists()


def test_links_are_told_as_what_can_be_typed_or_opened() -> None:
    known = {"settings": Path("settings.md"), "readme": Path("README.md")}
    text = "[all](settings.md#a) [up](#b) [start](../README.md) [why](decisions/0001-x.md) [site](https://x.y/z#c)\n"
    assert linked_for_terminals(text, "docker", known) == (
        "all (`corral help docs settings`) up start (`corral help docs readme`) "
        "why (docs/decisions/0001-x.md in the source) site (https://x.y/z#c)\n"
    )
    assert linked_for_terminals("([all](settings.md), or [x](#b); ([more](settings.md)))", "docker", known) == (
        "(all (`corral help docs settings`), or x; (more: `corral help docs settings`))"
    )
    code = "```\n[a](settings.md)\n```\n"
    assert linked_for_terminals(code, "docker", known) == code
