import pytest

from corral.core.model.errors import Refused
from corral.core.model.jobs.container import Container, Volume, VolumeKind, check_container, parse_volume


@pytest.mark.parametrize(
    ("text", "volume"),
    [
        ("/data:/data", Volume(VolumeKind.HOST_PATH, "/data", "/data")),
        ("/data/set:/in:ro", Volume(VolumeKind.HOST_PATH, "/data/set", "/in", read_only=True)),
        ("/data:/data:rw", Volume(VolumeKind.HOST_PATH, "/data", "/data")),
        ("pvc/models:/models:ro", Volume(VolumeKind.CLAIM, "models", "/models", read_only=True)),
        ("configmap/a.b:/etc/a", Volume(VolumeKind.CONFIG_MAP, "a.b", "/etc/a")),
        ("secret/token:/run/token", Volume(VolumeKind.SECRET, "token", "/run/token")),
    ],
)
def test_a_volume_is_a_source_and_a_path(text: str, volume: Volume) -> None:
    assert parse_volume(text) == volume


@pytest.mark.parametrize(
    "text",
    [
        "", "/data", "data:/data", "/data:data", "/data:/", "/data:/data:rx", "/a:/b:/c:ro", "pvc/:/x", "pvc/A:/x",
        "pvc/../x:/x", "/data/../etc:/x", "/data:/x/../y", "nfs/a:/x", "pvc/a\n:/x",
    ],
)  # fmt: skip
def test_what_is_no_volume_is_refused_with_how_to_write_one(text: str) -> None:
    with pytest.raises(Refused, match=r"write HOSTPATH:PATH, pvc/NAME:PATH"):
        parse_volume(text, "--volume")


def test_a_volume_prints_as_it_is_written() -> None:
    for text in ("/data:/data", "pvc/models:/models:ro"):
        assert str(parse_volume(text)) == text


@pytest.mark.parametrize("target", ["/etc", "/etc/", "/dev", "/proc", "/sys", "/run", "/usr", "/usr/lib64"])
@pytest.mark.parametrize("source", ["/data", "pvc/data"])
def test_where_a_runtime_puts_files_of_its_own_no_directory_is_mounted(source: str, target: str) -> None:
    with pytest.raises(Refused, match="root would make an empty file in your directory"):
        parse_volume(f"{source}:{target}")
    # Files of an object of the cluster are made for each pod.
    parse_volume(f"configmap/data:{target}")


def test_below_and_beside_such_places_it_may_be() -> None:
    for target in ("/etc/app", "/etc/hosts", "/usr/local", "/dev/shm", "/etcetera"):
        assert parse_volume(f"/data:{target}").target == target


@pytest.mark.parametrize(
    ("container", "message"),
    [
        (Container(image=""), "is not an image"),
        (Container(image="a b"), "is not an image"),
        (Container(image="../containers/a"), "is not an image"),
        (Container(image="repo//a"), "is not an image"),
        (Container(image="a" * 501), "is not an image"),
        (Container(service_account="../x"), "is not the name of a service account"),
        (Container(volumes=(parse_volume("/a:/x"), parse_volume("/b:/x"))), "two of them are at /x"),
        (Container(pod_template="x" * 70_000), "longer than 64 KiB"),
        (Container(volumes=tuple(parse_volume(f"/a:/x{n}") for n in range(51))), "at most 50"),
    ],
)
def test_what_can_be_no_container_is_refused(container: Container, message: str) -> None:
    with pytest.raises(Refused, match=message):
        check_container(container)
