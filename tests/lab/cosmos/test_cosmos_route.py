"""What a request is for: paths, and what is none."""

from __future__ import annotations

import pytest

from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.route import Route, route_of
from azlatch.lab.cosmos.wire import Request

_CONTAINER = (("dbs", "d"), ("colls", "c"))


@pytest.mark.parametrize(
    ("method", "path", "route"),
    [
        ("GET", "/", Route("read", "account")),
        ("GET", "/dbs", Route("list", "dbs")),
        ("POST", "/dbs/", Route("create", "dbs")),
        ("GET", "/dbs/d", Route("read", "dbs", (), "d")),
        ("GET", "/dbs/d/colls/c/docs", Route("list", "docs", _CONTAINER)),
        ("GET", "/dbs/d/colls/c/docs/i", Route("read", "docs", _CONTAINER, "i")),
        # The same place once more, for something else.
        ("PUT", "/dbs/d/colls/c/docs/j", Route("replace", "docs", _CONTAINER, "j")),
        ("PATCH", "dbs/d/colls/c/docs/a%2Fb%20%C3%A9", Route("patch", "docs", _CONTAINER, "a/b é")),
        ("GET", "/dbs/d%25/colls/%63/docs", Route("list", "docs", (("dbs", "d%"), ("colls", "c")))),
        ("GET", "/dbs/d/%63olls/c", Route("read", "colls", (("dbs", "d"),), "c")),
        ("POST", "/dbs/d/colls/c/operations/partitionkeydelete/", Route("delete-key", "docs", _CONTAINER)),
    ],
)
def test_paths(method: str, path: str, route: Route) -> None:
    """A path names a kind of resource by way of its parents; names are decoded after the path is divided."""
    assert route_of(Request(method, path, {})) == route


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "/", 405),
        ("DELETE", "/dbs", 405),
        ("GET", "/nothing", 404),
        ("GET", "/docs/i", 404),
        ("GET", "/dbs/d/docs", 404),
        ("GET", "/dbs//colls", 404),
        ("GET", "/dbs/d//c", 404),
        ("GET", "/dbs/d/colls/c/docs/i/docs", 404),
        ("GET", "/dbs/d/colls/c/operations/partitionkeydelete", 404),
        ("POST", "/dbs/d/colls/c/operations", 404),
        ("POST", "/dbs/d/colls/c/operations/other", 404),
        ("POST", "/dbs/d/colls/c/operations/partitionkeydelete/docs", 404),
        ("GET", "/" + "a" * 9_000, 400),
    ],
)
def test_paths_that_name_nothing(method: str, path: str, status: int) -> None:
    """They get the service's status, also when they come again."""
    for _ in range(2):
        with pytest.raises(ServiceError) as caught:
            route_of(Request(method, path, {}))
        assert caught.value.status == status
