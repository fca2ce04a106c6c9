"""The list of features: each is whole, and stands behind those that it needs."""

from pathlib import Path

import pytest

import corral.features
from corral.features.feature import Feature
from corral.features.feature_list import NAMES, features


def test_each_folder_is_in_the_list() -> None:
    folders = {path.parent.name for path in Path(corral.features.__file__).parent.glob("*/feature.py")}
    assert folders == set(NAMES)
    assert [feature.name for feature in features()] == list(NAMES)


@pytest.mark.parametrize("feature", features(), ids=lambda feature: feature.name)
def test_a_feature_stands_behind_those_that_it_needs(feature: Feature) -> None:
    assert set(feature.needs) <= set(NAMES[: NAMES.index(feature.name)])


def test_no_two_features_have_a_command_or_a_topic_of_one_name() -> None:
    commands = [name for feature in features() for _, name, _, _ in feature.commands]
    topics = [topic for feature in features() for topic in feature.topics()]
    assert len(set(commands)) == len(commands)
    assert len(set(topics)) == len(topics)
