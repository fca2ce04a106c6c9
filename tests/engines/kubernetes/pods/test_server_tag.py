from pathlib import Path

import pytest

from corral.core.model.errors import BackendFailed
from corral.engines.kubernetes.pods.server_tag import names_of_server


def test_a_servers_tag_stays_and_differs_from_anothers(tmp_path: Path) -> None:
    first = names_of_server(tmp_path / "tag")
    assert names_of_server(tmp_path / "tag") == first
    assert names_of_server(tmp_path / "other") != first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "tag"]


def test_a_file_that_has_no_tag_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "tag").write_text("NO TAG")
    with pytest.raises(BackendFailed, match="is no tag"):
        names_of_server(tmp_path / "tag")
    with pytest.raises(BackendFailed, match="cannot read"):
        names_of_server(tmp_path / "none" / "tag")
