"""The JSON bodies of requests and answers about channels."""

from dataclasses import dataclass
from typing import Annotated

from corral.config.channel_url import MAX_URL_LENGTH
from corral.core.model.field import Field
from corral.features.channels.answers import ChannelRow


@dataclass(frozen=True, slots=True)
class OwnChannel:
    """The URL of the caller's channel, in the form of apprise. It holds secrets, and no answer has it."""

    url: Annotated[str, Field(shortest=1, longest=MAX_URL_LENGTH)]


@dataclass(frozen=True, slots=True)
class ChannelList:
    """Channels, without their URLs."""

    channels: tuple[ChannelRow, ...]
