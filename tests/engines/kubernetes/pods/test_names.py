import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.errors import BackendFailed
from corral.engines.kubernetes.pods.names import Names, label_value, names_of_server

NAMES = Names("abc123")
LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?|")

numbers = st.integers(0, 10**20 - 1)
launches = st.builds(
    lambda job, index, number, rank: (
        f"{job}{'' if index is None else f'_{index}'}.{number}{'' if rank is None else f'-{rank}'}"
    ),
    numbers,
    st.none() | numbers,
    numbers,
    st.none() | st.integers(1, 99999),
)


def test_a_pod_is_named_after_its_launch() -> None:
    assert NAMES.pod("17.2") == "corral-abc123-17-2-0"
    assert NAMES.pod("17_3.2-1") == "corral-abc123-17e3-2-1"
    assert NAMES.address("17.2", "ml") == "corral-abc123-17-2-0.corral-abc123-17-2.ml.svc"


@given(one=launches, other=launches)
def test_two_launches_never_have_pods_of_one_name(one: str, other: str) -> None:
    if one != other:
        assert NAMES.pod(one) != NAMES.pod(other)


@given(launches)
def test_every_pods_name_is_a_hostname(launch: str) -> None:
    assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", NAMES.pod(launch))


@given(st.text(max_size=200))
def test_any_text_becomes_the_value_of_a_label(text: str) -> None:
    assert LABEL.fullmatch(label_value(text))


@given(st.text(max_size=80), st.text(max_size=80))
def test_two_texts_never_become_one_label(one: str, other: str) -> None:
    if one != other:
        assert label_value(one) != label_value(other)


def test_a_text_that_is_a_label_stays_as_it_is() -> None:
    assert label_value("alice") == "alice"
    assert label_value("Team A") == f"Team-A-{label_value('Team A')[-8:]}"


@pytest.mark.parametrize("tag", ["", "abc", "ABC123", "a-b-c", "x" * 13, "abcé"])
def test_a_tag_is_a_few_small_letters_and_digits(tag: str) -> None:
    with pytest.raises(ValueError, match="is no tag"):
        Names(tag)


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
