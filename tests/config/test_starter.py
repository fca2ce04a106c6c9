"""The settings file that a site begins with."""

import re
from pathlib import Path

import pytest

from corral.config import Settings, load_settings
from corral.config.starter import starter_settings
from corral.core.control.site.from_settings import site_setup


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def test_what_a_site_begins_with_is_valid_and_bounds_time_and_users(path: Path) -> None:
    path.write_text(starter_settings())
    settings = load_settings(path)
    site_setup(settings, None)
    assert settings.max_job_duration_s
    assert settings.max_milli_per_user


def test_what_has_a_default_value_is_shown_with_it(path: Path) -> None:
    path.write_text(starter_settings())
    found, default = load_settings(path), Settings()
    assert found.default_priority == default.default_priority
    assert found.priorities_of_users == default.priorities_of_users
    assert found.pass_unknown_limit_s == default.pass_unknown_limit_s
    assert found.pass_unknown_until_s == default.pass_unknown_until_s


def test_every_line_that_is_not_in_force_is_valid_once_it_is(path: Path) -> None:
    text = re.sub(r"^#(?! )(?=\S)|^#(?=  )(?!   corral config)", "", starter_settings(), flags=re.MULTILINE)
    path.touch(mode=0o600)
    path.write_text(text)
    settings = load_settings(path)
    site_setup(settings, None)
    assert (settings.algorithm, settings.reclaim_idle_after_s) == ("fair-share", 1800.0)
    assert [project.name for project in settings.projects] == ["vision"]
    assert [channel.name for channel in settings.channels] == ["ops"]
    assert [rule.name for rule in settings.alerts] == ["gpu-hot"]
    last = starter_settings().rpartition("# These have their default values.\n")[2]
    path.write_text(last.replace("#", ""))
    assert load_settings(path) == Settings()
