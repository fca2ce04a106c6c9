"""A site's own resource names are data beside Corral's, and a mistake in them is named with its place."""

from pathlib import Path

import pytest

from corral.model.errors import Refused
from corral.model.means import Means
from corral.sharing.definitions import load_catalogue
from corral.sharing.resources import to_ask

SITE = """
[[resource]]
key = "example.org/gpu-slice"
dataType = "number"
defaultValue = "1"
descriptionEn = "Quarter of a GPU"
descriptionZh = "四分之一块 GPU"
group = "example"
limits = "required"
requests = "required"
[resource.grants]
quantity = "share"
unit = 250
means = "timeslice"
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "site.toml"
    path.write_text(text)
    return path


def test_every_definition_has_both_languages_and_a_default_that_it_would_accept() -> None:
    for resource in load_catalogue().resources.values():
        assert resource.description_en
        assert resource.description_zh
        assert not resource.default_value or float(resource.default_value) > 0


def test_a_site_adds_a_resource(tmp_path: Path) -> None:
    catalogue = load_catalogue([write(tmp_path, SITE)])
    stated = {"example.org/gpu-slice": "3"}
    asked = to_ask(stated, stated, catalogue=catalogue)
    assert (asked.devices, asked.share_milli, asked.means) == (1, 750, Means.TIMESLICE)
    assert to_ask({"cuda.device": "1"}, catalogue=catalogue).devices == 1
    with pytest.raises(Refused, match="must be stated under requests too"):
        to_ask(stated, catalogue=catalogue)


def test_a_site_sets_the_unit_of_mps_memory(tmp_path: Path) -> None:
    own = load_catalogue().resources["nvidia.com/mps-memory"]
    text = f"""
[[resource]]
key = "nvidia.com/mps-memory"
dataType = "integer"
defaultValue = ""
descriptionEn = "{own.description_en}"
descriptionZh = "{own.description_zh}"
group = "mps"
limits = "optional"
requests = "fromLimits"
[resource.grants]
quantity = "memory"
unit = 1024
needs = "nvidia.com/mps-core"
means = "mps"
"""
    catalogue = load_catalogue([write(tmp_path, text)])
    asked = to_ask({"nvidia.com/mps-core": "50", "nvidia.com/mps-memory": "8"}, catalogue=catalogue)
    assert asked.memory_mib == 8192


def test_a_required_resource_takes_its_default(tmp_path: Path) -> None:
    second = SITE.replace("gpu-slice", "gpu-memory").replace('"share"', '"memory"').replace("unit = 250", "unit = 1024")
    optional = SITE.replace('limits = "required"', 'limits = "optional"').replace(
        'requests = "required"', 'requests = "fromLimits"'
    )
    mend = second.replace('requests = "required"', 'requests = "fromLimits"')
    catalogue = load_catalogue([write(tmp_path, optional + mend)])
    asked = to_ask({"example.org/gpu-slice": "1"}, catalogue=catalogue)
    assert (asked.share_milli, asked.memory_mib) == (250, 1024)


@pytest.mark.parametrize(
    ("find", "put", "words"),
    [
        ("unit = 250", "unit = 0", "grants.unit is 0; a unit must come to 1 or more"),
        ("unit = 250", 'unit = "250"', "grants.unit must be of type int"),
        ("unit = 250", "", "grants.unit is missing"),
        ("unit = 250", "unit = 250\nmsot = 3", "unknown field grants.msot; did you mean 'most'?"),
        ('"share"', '"shear"', "grants.quantity: 'shear'; did you mean 'share'?"),
        ('dataType = "number"', 'dataType = "float"', "dataType is 'float'; write one of integer, number"),
        ('limits = "required"', "", "limits is missing"),
        ('group = "example"', "group = 3", "group must be a text"),
        ("descriptionEn", "descriptionen", "unknown field 'descriptionen'; did you mean 'descriptionEn'?"),
        ("[[resource]]", "[[resources]]", "unknown key 'resources'; did you mean 'resource'?"),
        ("[[resource]]", "[[resource", "at line"),
        ("[[resource]]", "ignored = 3\n[[resource]]", "ignored must be a list"),
        ("[[resource]]", "[resource]", "begun by [[resource]]"),
        ("[resource.grants]", "grants = 3\n[other]", "unknown key 'other'"),
        ("unit = 250", "unit = 250\nexcludes = [1]", "grants.excludes must be a list of texts"),
    ],
)
def test_a_mistake_in_a_site_file_is_named_with_its_place(tmp_path: Path, find: str, put: str, words: str) -> None:
    path = write(tmp_path, SITE.replace(find, put))
    with pytest.raises(Refused) as refused:
        load_catalogue([path])
    assert str(path) in str(refused.value)
    assert words in str(refused.value)


def test_a_site_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"missing\.toml: cannot be read: No such file"):
        load_catalogue([tmp_path / "missing.toml"])
