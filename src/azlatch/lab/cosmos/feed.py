"""Feeds of resources: whole or by a query, in pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from azlatch.lab.cosmos.errors import bad_request
from azlatch.lab.cosmos.resource_tree import Resource
from azlatch.lab.cosmos.wire import Request

_USUAL_PAGE = 100
_MOST_ON_PAGE = 1_000
#: Longest continuation that is looked at, characters; it must stay a small number.
_MOST_CONTINUATION = 12


#: What is shown of a resource: its body, or more.
Show = Callable[[Resource], dict[str, Any]]


def page_of(resources: Iterable[Resource], request: Request, show: Show) -> tuple[list[dict[str, Any]], str]:
    """The bodies on one page, and the continuation of the next, "" if it was the last.

    The continuation names the last resource by its number, so that what is made or deleted between two pages
    moves nothing.

    Raises:
        ServiceError: 400 for a page size or a continuation that is none.
    """
    size, after = _page_size(request), _continuation(request, "N")
    found = list(islice((each for each in resources if each.number > after), size + 1))
    more = f"N{found[size - 1].number}" if len(found) > size else ""
    return [show(each) for each in found[:size]], more


def query_of(resources: Iterable[Resource], request: Request, show: Show) -> tuple[list[Any], str]:
    """The results of a query on one page, and the continuation of the next, "" if it was the last.

    Raises:
        ServiceError: 400 for a query, a page size or a continuation that is none.
    """
    # Imported late: the grammar is built on the first query, and an account without queries never pays for it.
    from azlatch.lab.cosmos.sql import execute, request_of

    size, skipped = _page_size(request), _continuation(request, "Q")
    query, parameters = request_of(request.body)
    results = execute(query, parameters, (show(each) for each in resources))
    found = list(islice(results, skipped, skipped + size + 1))
    return found[:size], f"Q{skipped + size}" if len(found) > size else ""


def _page_size(request: Request) -> int:
    text = request.header("x-ms-max-item-count")
    if not text:
        return _USUAL_PAGE
    try:
        size = int(text) if len(text) <= 10 else 0
    except ValueError:
        size = 0
    if size != -1 and size < 1:
        raise bad_request("The value of the header x-ms-max-item-count is invalid: it is -1 or positive.")
    return _MOST_ON_PAGE if size == -1 else min(size, _MOST_ON_PAGE)


def _continuation(request: Request, mark: str) -> int:
    text = request.header("x-ms-continuation")
    if not text:
        return 0
    digits = text[1:]
    if (
        not text.startswith(mark)
        or len(text) > _MOST_CONTINUATION
        or not (digits.isascii() and digits.isdigit())
    ):
        raise bad_request("The continuation token is invalid for this feed.")
    return int(digits)
