"""The API's description. Each route names the shapes it takes and gives; their schemas are made when asked for."""

import types
from collections.abc import Callable
from dataclasses import MISSING, fields
from enum import StrEnum
from typing import Any, Union, get_args, get_origin, get_type_hints

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from corral.api import shapes
from corral.api.bodies import MAX_BODY_BYTES
from corral.api.desk import MOST_BYTES
from corral.model import rows
from corral.model.submission import Submission

_REF = "#/components/schemas/"
_QUERY_TYPES = {str: "string", int: "integer", bool: "boolean"}


def takes(cls: type[Any], *, most_bytes: int = MAX_BODY_BYTES) -> dict[str, Any]:
    """`openapi_extra` of a route whose JSON body is a `cls` of at most so many bytes."""
    return {"requestBody": {"required": True, "content": _json_of(cls), MOST_BYTES: most_bytes}}


def takes_query(cls: type[Any]) -> dict[str, Any]:
    """`openapi_extra` of a route whose query string is a `cls`."""
    hints = get_type_hints(cls)
    return {
        "parameters": [
            {"in": "query", "name": f.name, "required": f.default is MISSING, "schema": _query_schema(hints[f.name])}
            for f in fields(cls)
        ]
    }


def gives(cls: type[Any] | None, *, status: int = 200, description: str | None = None) -> dict[int | str, Any]:
    """`responses` of a route that answers with the JSON of a `cls`, or with the bytes of a log when it is None."""
    content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    said = description or ((cls.__doc__ or "").splitlines()[0] if cls else "Bytes as the job wrote them.")
    return {
        status: {"description": said, "content": _json_of(cls) if cls else content},
        "default": {"description": "What is wrong.", "content": _json_of(shapes.ErrorAnswer)},
    }


def describer(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """A function that returns the OpenAPI description of the application's routes, as `FastAPI.openapi` does."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            described = get_openapi(
                title=app.title, version=app.version, description=app.description, routes=app.routes
            )
            described.setdefault("components", {})["schemas"] = _schemas()
            described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            described["security"] = [{"token": []}, {}]
            app.openapi_schema = described
        return app.openapi_schema

    return describe


def _schemas() -> dict[str, Any]:
    from pydantic import TypeAdapter

    told = _defined_in(rows)
    classes: list[type[Any]] = [Submission, *_defined_in(shapes), *told]
    inputs = (TypeAdapter[Any](cls) for cls in classes)
    _, described = TypeAdapter.json_schemas(
        [(index, "validation", adapter) for index, adapter in enumerate(inputs)], ref_template=f"{_REF}{{model}}"
    )
    schemas: dict[str, Any] = described["$defs"]
    for cls in told:
        # Defaults are for a client that asks an older server: this one tells every field.
        properties = schemas[cls.__name__]["properties"]
        schemas[cls.__name__]["required"] = list(properties)
        for described_field in properties.values():
            described_field.pop("default", None)
    return schemas


def _defined_in(module: types.ModuleType) -> list[type[Any]]:
    return [cls for cls in vars(module).values() if isinstance(cls, type) and cls.__module__ == module.__name__]


def _json_of(cls: type[Any]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF + cls.__name__}}}


def _query_schema(kind: Any) -> dict[str, Any]:
    if get_origin(kind) in (Union, types.UnionType):
        (kind,) = (arg for arg in get_args(kind) if arg is not type(None))
    if get_origin(kind) is tuple:
        return {"type": "array", "items": {"type": "string", "enum": [member.value for member in get_args(kind)[0]]}}
    if issubclass(kind, StrEnum):
        return {"type": "string", "enum": [member.value for member in kind]}
    return {"type": _QUERY_TYPES[kind]}
