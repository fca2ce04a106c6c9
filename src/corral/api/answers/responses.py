"""The `responses` of a route in the OpenAPI description."""

from collections.abc import Mapping
from typing import Any

from corral.api.requests import shapes

SCHEMAS = "#/components/schemas/"
"""The beginning of a reference to a schema."""

BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
"""The `content` of an answer that is bytes of any kind."""


def gives(cls: type[Any] | None, *, status: int = 200, description: str | None = None) -> dict[int | str, Any]:
    """The `responses` of a route that answers with the JSON of a `cls`. None stands for the bytes of a log."""
    said = description or ((cls.__doc__ or "").splitlines()[0] if cls else "Bytes as the job wrote them.")
    return {
        status: {"description": said, "content": json_of(cls) if cls else BYTES},
        "default": {"description": "The error, and how to correct it.", "content": json_of(shapes.ErrorAnswer)},
    }


def gives_many(cls: type[Any]) -> dict[int | str, Any]:
    """The `responses` of a route that answers with a JSON list of `cls`."""
    listed = {"type": "array", "items": {"$ref": SCHEMAS + cls.__name__}}
    return {**gives(cls), 200: {"description": "A list.", "content": {"application/json": {"schema": listed}}}}


def gives_nothing(description: str) -> dict[int | str, Any]:
    """The `responses` of a route that answers without a body."""
    return {204: {"description": description}, "default": gives(None)["default"]}


def gives_text(media_type: str, description: str) -> dict[int | str, Any]:
    """The `responses` of a route that answers with text of this media type."""
    told = {"description": description, "content": {media_type: {"schema": {"type": "string"}}}}
    return {**gives(None), 200: told}


def gives_log(media_type: str, schema: Mapping[str, Any]) -> dict[int | str, Any]:
    """The `responses` of a route that answers with a log in this form, or with Server-Sent Events that follow it."""
    text: dict[str, Any] = {media_type: {"schema": schema}, "text/event-stream": {"schema": {"type": "string"}}}
    return {
        **gives(None),
        200: {"description": "The log; with `follow` an event for each line.", "content": text},
        204: {"description": "No content: the stream that a browser follows has ended, and it does not reconnect."},
    }


def json_of(cls: type[Any]) -> dict[str, Any]:
    """The `content` of an answer that is the JSON of a `cls`."""
    return {"application/json": {"schema": {"$ref": SCHEMAS + cls.__name__}}}
