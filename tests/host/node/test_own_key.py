"""The server's key on a host: a line among those of the host, which are left as they are."""

from pathlib import Path

from corral.host.node.installed.agent_places import AgentPlaces
from corral.host.node.installed.own_key import allow, forbid

OTHERS = "# mine\nssh-ed25519 AAAA ann@laptop\n"


def test_a_key_comes_and_goes_and_the_keys_of_others_stay(tmp_path: Path) -> None:
    places = AgentPlaces(tmp_path, by_root=False)
    places.keys.parent.mkdir()
    places.keys.write_text(OTHERS)
    allow(places, "ssh-ed25519 BBBB", "tag-1")
    allow(places, "ssh-ed25519 CCCC", "tag-2")
    one, two = places.keys.read_text().removeprefix(OTHERS).splitlines()
    assert one.startswith('restrict,command="')
    assert one.endswith('agent connect" ssh-ed25519 BBBB corral-server-tag-1')
    assert two.endswith("CCCC corral-server-tag-2")
    allow(places, "ssh-ed25519 DDDD", "tag-1")
    assert "BBBB" not in places.keys.read_text()
    forbid(places, "tag-1")
    assert places.keys.read_text() == f"{OTHERS}{two}\n"
    forbid(places, "tag-2")
    assert places.keys.read_text() == OTHERS


def test_where_there_are_no_keys_none_are_made_for_their_removal(tmp_path: Path) -> None:
    forbid(AgentPlaces(tmp_path, by_root=False), "tag-1")
    assert list(tmp_path.iterdir()) == []
