"""A site's own resource names are data beside Corral's, and a mistake in them is named with its place."""

from pathlib import Path

import pytest

from corral.core.model.devices.means import Means
from corral.core.model.errors import Refused
from corral.core.sharing.definitions import load_catalogue
from corral.core.sharing.resources import to_ask

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
    asked = to_ask(stated, catalogue=catalogue)
    assert (asked.devices, asked.share_milli, asked.means) == (1, 750, Means.TIMESLICE)
    assert to_ask({"cuda.device": "1"}, catalogue=catalogue).devices == 1


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


POLICIES = [(limits, requests) for limits in ("disabled", "required", "optional") for requests in ("required",)]
POLICIES += [(limits, requests) for limits in ("required", "optional") for requests in ("disabled", "fromLimits")]


@pytest.mark.parametrize(("limits", "requests"), POLICIES)
def test_one_amount_satisfies_each_policy_and_a_default_each_that_requires(
    tmp_path: Path, limits: str, requests: str
) -> None:
    memory = SITE.replace("gpu-slice", "gpu-memory").replace('"share"', '"memory"').replace("unit = 250", "unit = 1024")
    memory = memory.replace('limits = "required"', f'limits = "{limits}"')
    memory = memory.replace('requests = "required"', f'requests = "{requests}"')
    catalogue = load_catalogue([write(tmp_path, SITE + memory)])
    both = {"example.org/gpu-slice": "1", "example.org/gpu-memory": "3"}
    asked = to_ask(both, catalogue=catalogue)
    assert (asked.share_milli, asked.memory_mib, asked.notes) == (250, 3072, ())
    alone = to_ask({"example.org/gpu-slice": "1"}, catalogue=catalogue)
    assert (alone.share_milli, alone.memory_mib) == (250, 1024 if "required" in (limits, requests) else None)
    without = load_catalogue([write(tmp_path, SITE + memory.replace('defaultValue = "1"', ""))])
    if "required" in (limits, requests):
        with pytest.raises(Refused, match=r"gpu-memory: is required together with example\.org/gpu-slice"):
            to_ask({"example.org/gpu-slice": "1"}, catalogue=without)


@pytest.mark.parametrize("requests", ["disabled", "fromLimits"])
def test_policies_under_which_nobody_could_name_it_are_refused(tmp_path: Path, requests: str) -> None:
    text = SITE.replace('limits = "required"', 'limits = "disabled"')
    with pytest.raises(Refused, match="no request could name it"):
        load_catalogue([write(tmp_path, text.replace('requests = "required"', f'requests = "{requests}"'))])


@pytest.mark.parametrize("value", ["false", '"false"'])
def test_a_definition_that_is_not_enabled_takes_its_name_away(tmp_path: Path, value: str) -> None:
    text = SITE.replace("example.org/gpu-slice", "cuda.shares").replace(
        "[[resource]]", f"[[resource]]\nenabled = {value}"
    )
    catalogue = load_catalogue([write(tmp_path, text)])
    with pytest.raises(Refused, match=r"cuda\.shares: this site has disabled this resource name"):
        to_ask({"cuda.shares": "1"}, catalogue=catalogue)
    assert "cuda.shares" not in catalogue.resources
    back = load_catalogue([write(tmp_path, text.replace(value, "true"))])
    assert to_ask({"cuda.shares": "1"}, catalogue=back).share_milli == 250


def test_descriptions_and_a_default_may_be_left_out(tmp_path: Path) -> None:
    lines = [line for line in SITE.splitlines() if not line.startswith(("description", "defaultValue"))]
    known = load_catalogue([write(tmp_path, "\n".join(lines))]).resources["example.org/gpu-slice"]
    assert (known.default_value, known.descriptions) == ("", {})


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
        ('defaultValue = "1"', 'defaultValue = "much"', "defaultValue: example.org/gpu-slice: 'much' is not a number"),
        ('defaultValue = "1"', "defaultValue = 1", "defaultValue must be a text"),
        ('dataType = "number"', 'dataType = "number"\nenabled = "maybe"', "enabled must be true or false"),
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
