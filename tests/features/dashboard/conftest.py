from pathlib import Path

import pytest

from tests.api.world import BUILT_PAGES

SCRIPT = "console.log('hello')\n" * 100


@pytest.fixture
def home(home: Path) -> Path:
    """The same, with pages as the build leaves them."""
    assets = home / BUILT_PAGES / "assets"
    assets.mkdir(parents=True)
    (home / BUILT_PAGES / "index.html").write_text("<!doctype html><title>Corral</title>")
    (home / BUILT_PAGES / "icon.svg").write_text("<svg/>")
    (assets / "index-abc123.js").write_text(SCRIPT)
    return home
