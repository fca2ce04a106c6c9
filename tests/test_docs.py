"""What the pages say is what the code does."""

import importlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from corral.config import Settings, docker, kubernetes, load_settings, settings, site
from corral.core.control.site.from_settings import site_setup
from corral.core.model.devices.means import Means
from corral.core.sharing.definitions import _MEANING_TYPES, load_catalogue
from corral.host.telemetry import mock_file
from corral.host.telemetry.mock_cluster import read_mock_cluster
from corral.host.telemetry.mock_file import Load

DOCS = Path(__file__).parent.parent / "docs"
ARCHITECTURE = (DOCS.parent / "ARCHITECTURE.md").read_text()
PACKAGE = DOCS.parent / "src" / "corral"
ROW = re.compile(r"^\| `(\w+)` \| (?:`([^`]*)`|.*?) \|", re.MULTILINE)


def test_the_page_on_settings_has_every_setting_with_its_default(tmp_path: Path) -> None:
    rows = dict(ROW.findall((DOCS / "settings.md").read_text()))
    assert sorted(rows) == sorted(settings.SETTINGS.keys() - {"alerts", "pools", "projects", "queues", "user_quota"})
    path = tmp_path / "config.yaml"
    path.write_text("".join(f"{key}: {default}\n" for key, default in rows.items() if default))
    assert load_settings(path) == replace(Settings(), sharing=(("*", Means.TIMESLICE),))


def test_the_page_on_settings_has_every_key_of_a_group_and_its_examples_are_taken(tmp_path: Path) -> None:
    page = (DOCS / "settings.md").read_text()
    lists = {
        "queues": site._QUEUE,
        "projects": site._PROJECT,
        "pools": site._POOL,
        "quota": site._QUOTA,
        "kubernetes": kubernetes._KEYS,
        "docker": docker._KEYS,
    }
    groups = {**settings.SECTIONS, **lists}
    assert [f"{name}.{key}" for name, keys in groups.items() for key in keys if f"`{name}.{key}`" not in page] == []
    path = tmp_path / "config.yaml"
    for example in page.split("```yaml\n")[1:]:
        path.write_text(example.partition("```")[0])
        assert load_settings(path) != Settings()


def test_the_page_on_described_devices_has_every_key_and_a_box_that_can_be_read(tmp_path: Path) -> None:
    page = (DOCS / "mock-devices.md").read_text()
    assert sorted(dict(ROW.findall(page))) == sorted(mock_file._DEVICE_KEYS)
    assert all(f"`{reading}`" in page for reading in mock_file._READINGS)
    assert all(f'`"{load}"`' in page for load in Load)
    path = tmp_path / "box.toml"
    path.write_text(page.partition("```toml\n")[2].partition("```")[0])
    idle, used = read_mock_cluster(path).nodes[0].box.devices
    path.write_text(page.split("```toml\n")[2].partition("```")[0])
    assert [(node.name, node.silent) for node in read_mock_cluster(path).nodes] == [("gpu-01", False), ("gpu-02", True)]
    assert (idle.device.links[0].peer_uuid, used.processes[0].memory_mib) == (used.device.uuid, 20 * 1024)


def test_the_page_on_resource_names_has_each_and_a_definition_that_is_taken(tmp_path: Path) -> None:
    page = (DOCS / "resource-names.md").read_text()
    known = load_catalogue()
    assert re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE) == list(known.resources)
    assert [name for name in known.ignored if f"`{name}`" not in page] == []
    assert [name for name in _MEANING_TYPES if name not in page] == []
    path = tmp_path / "names.toml"
    path.write_text(page.partition("```toml\n")[2].partition("```")[0])
    assert load_catalogue([path]).resources["nvidia.com/mps-memory"].grants.unit == 1024


@pytest.mark.parametrize("page", [DOCS / "settings.md", DOCS.parent / "README.md"], ids=["settings", "readme"])
def test_settings_that_a_page_shows_are_taken_as_they_stand(page: Path, tmp_path: Path) -> None:
    shown = re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert shown
    for number, text in enumerate(shown):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text)
        site_setup(load_settings(path), None)


def section(title: str) -> str:
    """The part of ARCHITECTURE.md under a heading."""
    return ARCHITECTURE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_names_in_the_glossary_exist() -> None:
    names = re.findall(r"^\| [^|]+ \| [^|]+ \| `([\w.]+)` \|", section("Words"), re.MULTILINE)
    modules = [name.rpartition(".") for name in names]
    missing = [f"{at}.{name}" for at, _, name in modules if not hasattr(importlib.import_module(f"corral.{at}"), name)]
    assert len(names) > 20
    assert missing == []


def test_every_room_is_described_and_what_it_says_to_read_first_exists() -> None:
    rows = re.findall(r"^\| (`[^|]+`) \| [^|]+ \|([^|]*)\|$", section("Rooms"), re.MULTILINE)
    rooms = [room for named, _ in rows for room in re.findall(r"`([\w/.]+)`", named)]
    found = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")} | {
        path.name for path in PACKAGE.glob("*.py") if path.name != "__init__.py"
    }
    assert found - set(rooms) == set()
    firsts = [f"{named.strip('`')}{first}" for named, told in rows for first in re.findall(r"`([\w/]+\.py)`", told)]
    assert [path for path in firsts if not (PACKAGE / path).is_file()] == []


def test_every_path_in_the_architecture_exists() -> None:
    paths = set(re.findall(r"`([\w/]+/[\w/]+\.py)`", ARCHITECTURE))
    missing = [path for path in paths if not ((PACKAGE / path).is_file() or (DOCS.parent / path).is_file())]
    assert sorted(path for path in missing if path not in section("Rooms")) == []


def test_every_decision_that_the_architecture_names_exists() -> None:
    named = {int(number) for number in re.findall(r"decisions? (\d+)", ARCHITECTURE)}
    there = {int(one.name[:4]) for one in (DOCS / "decisions").glob("[0-9]*.md")}
    assert named - there == set()


@pytest.mark.parametrize("page", sorted([*DOCS.rglob("*.md"), *DOCS.parent.glob("*.md")]), ids=lambda page: page.name)
def test_no_page_has_the_marks_of_a_merge(page: Path) -> None:
    assert not re.search(r"^(<{7}|>{7}|\|{7})( |$)", page.read_text(), re.MULTILINE)
