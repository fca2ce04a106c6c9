"""The OpenAPI description. Each route names the classes of its body and answer; their schemas are made here.

It is loaded at the first request for it, because pydantic, which makes JSON Schema, takes a tenth of a server's start.
"""

import inspect
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter

import corral
from corral.api.answers.responses import BYTES, SCHEMAS, json_of
from corral.api.requests import gpu_number, shapes
from corral.api.route_table import ApiRoute, Body, RouteTable
from corral.core.model import answers
from corral.core.model.files.upload import Upload
from corral.core.model.jobs.input import TerminalSize
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.submission import ArraySpec
from corral.core.model.jobs.sweep import Sweep
from corral.declared.field_limits import schema_limits
from corral.wire import key_of

_QUERY_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_NO_WORD = re.compile(r"\W")
_PARAMETER = re.compile(r"{(\w+)(?::\w+)?}")


def describe(tables: Iterable[RouteTable], of_features: Iterable[types.ModuleType]) -> dict[str, Any]:
    """The OpenAPI description of these routes. `of_features` are modules `bodies` and `answers`."""
    paths: dict[str, dict[str, Any]] = {}
    taken: set[type[Any]] = set()
    asked: set[type[Any]] = set()
    for table in tables:
        for route in table.routes:
            if isinstance(route, ApiRoute) and route.answers is not None:
                path = _PARAMETER.sub(r"{\1}", table.prefix + route.path)
                paths.setdefault(path, {})[route.method.lower()] = _operation(route, path, table.tag)
                if route.takes is not None and route.takes.cls is not None:
                    taken.add(route.takes.cls)
                if route.query is not None:
                    asked.add(route.query)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Corral",
            "description": "Submit GPU work, see where it runs and why it waits.",
            "version": corral.__version__,
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(taken, asked, of_features),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _operation(route: ApiRoute, path: str, tag: str | None) -> dict[str, Any]:
    names = _PARAMETER.findall(path)
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    told: dict[str, Any] = {
        "tags": [tag],
        "summary": route.name.replace("_", " ").title(),
        "description": inspect.cleandoc(route.does),
        "operationId": _NO_WORD.sub("_", route.name + path) + "_" + route.method.lower(),
        "responses": {str(status): said for status, said in (route.answers or {}).items()},
    }
    if route.query is not None:
        parameters += _query_parameters(route.query)
    if parameters:
        told["parameters"] = parameters
    if route.takes is not None:
        told["requestBody"] = _request_body(route.takes)
    return told


def _request_body(body: Body) -> dict[str, Any]:
    """The description of a body, with `x-max-bytes` for its largest size."""
    content = json_of(body.cls) if body.cls else BYTES
    return {"required": body.cls is not None, "content": content, "x-max-bytes": body.most_bytes}


def _query_parameters(cls: type[Any]) -> list[dict[str, Any]]:
    hints = get_type_hints(cls)
    return [
        {
            "in": "query",
            "name": key_of(f.name),
            "required": f.default is MISSING,
            "schema": _query_schema(hints[f.name], cls, f.name),
        }
        for f in fields(cls)
    ]


def _schemas(taken: set[type[Any]], asked: set[type[Any]], of_features: Iterable[types.ModuleType]) -> dict[str, Any]:
    """The schemas of all rows and requests: of bodies (`taken`), query strings (`asked`), and all that is answered.

    The classes of `taken`, and the classes in them, allow no other fields.
    """
    modules = [import_module(found.name) for found in iter_modules(answers.__path__, f"{answers.__name__}.")]
    modules += of_features
    requested = sorted({*taken, *asked, *_defined_in(shapes)}, key=lambda cls: cls.__name__)
    answered = [cls for module in modules for cls in _defined_in(module) if cls not in requested]
    classes = [*requested, *answered]
    inputs = (TypeAdapter[Any](cls) for cls in classes)
    _, described = TypeAdapter.json_schemas(
        [(index, "validation", adapter) for index, adapter in enumerate(inputs)], ref_template=f"{SCHEMAS}{{model}}"
    )
    schemas: dict[str, Any] = described["$defs"]
    for cls in (*classes, Request, ArraySpec, TerminalSize, Sweep, Upload):
        for name, limit in schema_limits(cls).items() if is_dataclass(cls) else ():
            _narrow(schemas[cls.__name__]["properties"][name], limit)
    for schema in schemas.values():
        if "properties" in schema:
            schema["properties"] = {key_of(name): described for name, described in schema["properties"].items()}
    _close(schemas, {cls.__name__ for cls in taken})
    schemas[Request.__name__]["properties"]["gpus"] = gpu_number.SCHEMA
    for cls in answered:
        # Defaults help clients of older servers. This server sends every field, except those marked `left_out`.
        properties = schemas[cls.__name__]["properties"]
        left_out = {key_of(f.name) for f in fields(cls) if f.metadata.get("left_out")}
        schemas[cls.__name__]["required"] = [name for name in properties if name not in left_out]
        for described_field in properties.values():
            described_field.pop("default", None)
    return schemas


def _narrow(schema: dict[str, Any], limit: Mapping[str, Any]) -> None:
    """Add the limit to every variant that is not null."""
    kinds = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
    for kind in kinds:
        kind.update(limit)


def _close(schemas: dict[str, Any], names: set[str]) -> None:
    """Let the schemas of these names, and the objects in them, allow no other fields: requests are read strictly."""
    for name in names:
        schema = schemas[name]
        if schema.get("type") == "object" and "additionalProperties" not in schema:
            schema["additionalProperties"] = False
            _close(schemas, {ref.rsplit("/", 1)[1] for ref in _references(schema["properties"])})


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        node = list(node.values())
    for value in node if isinstance(node, list) else ():
        yield from _references(value)


def _defined_in(module: types.ModuleType) -> list[type[Any]]:
    return [cls for cls in vars(module).values() if isinstance(cls, type) and cls.__module__ == module.__name__]


def _query_schema(kind: Any, cls: type[Any], name: str) -> dict[str, Any]:
    if get_origin(kind) in (Union, types.UnionType):
        (kind,) = (arg for arg in get_args(kind) if arg is not type(None))
    if get_origin(kind) is tuple:
        (of, _) = get_args(kind)
        values = {} if of is str else {"enum": [member.value for member in of]}
        return {"type": "array", "items": {"type": "string", **values}}
    if issubclass(kind, StrEnum):
        return {"type": "string", "enum": [member.value for member in kind]}
    return {"type": _QUERY_TYPES[kind], **schema_limits(cls).get(name, {})}
