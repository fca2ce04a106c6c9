"""Channels are read from the settings, and their URLs are seen nowhere else."""

from dataclasses import fields
from pathlib import Path

import pytest

from corral.config import Settings, load_settings
from corral.config.channel_url import Channel
from corral.config.differences import differences
from corral.core.model.errors import Refused

SECRET = "s3cr3t-T0ken"


def loaded(directory: Path, text: str, mode: int = 0o600) -> Settings:
    path = directory / "config.yaml"
    path.write_text(text)
    path.chmod(mode)
    return load_settings(path)


def test_channels_are_named_urls_that_no_text_of_theirs_shows(tmp_path: Path) -> None:
    settings = loaded(tmp_path, f"channels: {{ops: 'slack://{SECRET}/b', mail: 'mailtos://a:{SECRET}@example.org'}}")
    assert settings.channels == (
        Channel("ops", f"slack://{SECRET}/b"),
        Channel("mail", f"mailtos://a:{SECRET}@example.org"),
    )
    assert [channel.kind for channel in settings.channels] == ["slack", "mailtos"]
    assert SECRET not in f"{settings!r} {settings.channels} {settings.channels[0]}"


def test_a_reload_tells_that_a_url_has_changed_and_not_the_url(tmp_path: Path) -> None:
    before = loaded(tmp_path, f"channels: {{ops: 'jsons://{SECRET}.example/1'}}")
    after = loaded(tmp_path, f"channels: {{ops: 'jsons://{SECRET}.example/2'}}")
    (found,) = differences(before, after, frozenset(field.name for field in fields(Settings)))
    assert found.setting == "channels"
    assert found.old != found.new
    assert SECRET not in str(found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"channels: {SECRET}", "config.yaml, line 1: channels: write lines of KEY: VALUE below it"),
        (f"channels:\n  ops: {SECRET}", "config.yaml, line 2: channels.ops: this is not the URL of a channel"),
        (f"channels:\n  ops: jsons://a b/{SECRET}", "line 2: channels.ops: this is not the URL of a channel"),
        (f"channels:\n  ops: [{SECRET}]", "line 2: channels.ops: write one URL"),
        (f"channels:\n  ops: jsons://a/{'x' * 3000}{SECRET}", "in at most 2048 ASCII characters"),
        (f"channels:\n  'o p': jsons://{SECRET}", "line 2: channels: name a channel in letters"),
        (f"channels:\n  ops: jsons://{SECRET}\n  ops: jsons://b", "line 3: channels.ops is given twice"),
        (f"channels: {{{', '.join(f'c{n}: jsons://{SECRET}' for n in range(51))}}}", "at most 50 are allowed"),
        ("user_channel_kinds: [slack, dbus]", "user_channel_kinds: dbus acts on the server's own machine"),
        ("user_channel_kinds: ['a b']", "'a b' is not a kind of URL"),
        ("user_channel_networks: [10.1.0.1/16]", "'10.1.0.1/16' is not a network"),
    ],
)
def test_a_mistake_is_refused_with_its_line_and_without_the_secret(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(Refused) as refused:
        loaded(tmp_path, text)
    assert said in str(refused.value)
    assert SECRET not in str(refused.value)


def test_urls_in_a_file_that_every_user_can_read_are_refused(tmp_path: Path) -> None:
    text = "channels: {ops: 'jsons://example.org/x'}"
    tmp_path.chmod(0o755)
    with pytest.raises(Refused, match=r"every user of this machine can read the file; chmod o-r"):
        loaded(tmp_path, text, 0o644)
    assert loaded(tmp_path, text, 0o640).channels
    assert loaded(tmp_path, "kill_grace: 5s", 0o644).channels == ()
    tmp_path.chmod(0o700)
    assert loaded(tmp_path, text, 0o644).channels


def test_what_users_may_have_is_safe_unless_the_site_says_otherwise(tmp_path: Path) -> None:
    plain = loaded(tmp_path, "")
    assert "jsons" in plain.user_channel_kinds
    assert not {"json", "mailto", "mqtt", "syslog"} & set(plain.user_channel_kinds)
    assert plain.user_channel_networks == ()
    wider = loaded(tmp_path, "user_channel_kinds: [mailto, mmosts]\nuser_channel_networks: [10.1.0.0/16, 'fd00::/8']")
    assert wider.user_channel_kinds == ("mailto", "mmosts")
    assert wider.user_channel_networks == ("10.1.0.0/16", "fd00::/8")
    assert loaded(tmp_path, "user_channel_kinds: []").user_channel_kinds == ()
