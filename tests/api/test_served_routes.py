"""What is described is what is served."""

from corral.api.served_routes import ServedRoute, served
from corral.app.http_api import description, routes


def test_every_path_that_is_described_is_served_with_just_these_methods() -> None:
    described = {(path, method.upper()) for path, methods in description()["paths"].items() for method in methods}
    found = [route for table in routes() for route in served(table)]
    methods = {(r.path_format, method) for r in found if isinstance(r, ServedRoute) for method in r.methods or ()}
    assert described
    assert described <= methods
    assert not [method for _, method in methods if method == "HEAD"]
