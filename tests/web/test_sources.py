"""The sources of the pages: types, lint, their own tests, and whether their types of the API are those that it has."""

from pathlib import Path

import pytest

from deploy.build_pages import NotBuilt, check, install_modules, node_directory, write_types

pytestmark = pytest.mark.long

WEB = Path(__file__).parents[2] / "web"


@pytest.fixture(scope="session")
def node() -> Path:
    try:
        node = node_directory()
        install_modules(node, tools=True)
    except NotBuilt as error:
        pytest.skip(f"the tools of the pages cannot be fetched here: {error}")
    return node


def test_the_pages_are_sound(node: Path) -> None:
    check()


def test_the_types_of_the_api_are_those_that_the_server_describes(node: Path, tmp_path: Path) -> None:
    write_types(tmp_path / "schema.d.ts")
    kept = (WEB / "src/api/schema.d.ts").read_text()
    assert (tmp_path / "schema.d.ts").read_text() == kept, "make web-types brings them in line"
    assert (tmp_path / "untold.ts").read_text() == (WEB / "src/api/untold.ts").read_text()


def test_the_lock_of_the_pages_names_no_registry() -> None:
    assert '"resolved"' not in (WEB / "package-lock.json").read_text()
