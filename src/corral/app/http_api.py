"""The API of a server: the routes of the core and of all features, and their description."""

from functools import cache
from typing import Any

from starlette.applications import Starlette

from corral.api.app import all_routes, create_app
from corral.api.route_table import RouteTable
from corral.api.routing import AppState
from corral.features.feature_list import features


def http_api(state: AppState) -> Starlette:
    """The application, as `corral.api.app.create_app` makes it."""
    return create_app(state, routes(), description)


def routes() -> tuple[RouteTable, ...]:
    """All routes, in the order in which they are matched."""
    return all_routes(table for feature in features() for table in feature.routes())


@cache
def description() -> dict[str, Any]:
    """The OpenAPI description of all routes. It needs no running server."""
    from corral.api.openapi import describe  # loads pydantic, which no other part of a server needs

    return describe(routes(), [module for feature in features() for module in feature.described()])
