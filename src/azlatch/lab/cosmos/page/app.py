"""The page's application: what is where, and what it shows.

=============================== ======================================================================
`/`                             regions, containers, the last requests
`/container?path=`              a container: its ranges, and their load as a heat map
`/items?path=&range=&after=`    the items of a range, a page at a time; `key=` and `id=` find one
`/item?path=&number=`           an item
`/faults`                       the rules in force; POST `/faults/add`, `/faults/remove`
`/requests?container=&status=`  the ledger, the newest first
=============================== ======================================================================
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from azlatch.errors import BackendError, UsageError
from azlatch.lab.cosmos.page import looking, rule_form
from azlatch.lab.cosmos.page.guard import TOKEN, Guard, token_of
from azlatch.lab.cosmos.page.heat import COLUMN_S, COLUMNS
from azlatch.lab.cosmos.page.looking import MOST_ROWS, SEARCHED, THROTTLED_S
from azlatch.lab.cosmos.page.picture import picture
from azlatch.lab.cosmos.page.reader import Reader
from azlatch.lab.cosmos.page.render import Pages, as_json, link, static

if TYPE_CHECKING:
    from azlatch.lab.cosmos.lab import CosmosLab
    from azlatch.lab.cosmos.page.asgi import Application

#: Items on a page, requests on the first page, and on their own.
ITEMS, LATEST, REQUESTS = 50, 12, 100

_Views = list[tuple[str, str, Callable[[Request], Awaitable[Response]]]]


def application(lab: CosmosLab, key: str) -> Application:
    """The whole of it, for who has the key."""
    pages = Pages()
    views = Views(Reader(lab), pages, token_of(key))
    routes = [Route(path, endpoint, methods=[method]) for method, path, endpoint in views.all()]
    inside = Starlette(
        routes=routes,
        exception_handlers={
            UsageError: partial(_problem, pages, 404),
            BackendError: partial(_problem, pages, 503),
            HTTPException: partial(_http_problem, pages),
            Exception: partial(_unknown_problem, pages),
        },
    )
    return Guard(inside, key, pages).__call__


class Views:
    """One method a page. Each reads what it shows, and leaves the rest to its template."""

    def __init__(self, reader: Reader, pages: Pages, token: str) -> None:
        self._reader = reader
        self._pages = pages
        self._token = token

    def all(self) -> _Views:
        """By method and path."""
        return [
            ("GET", "/", self.overview),
            ("GET", "/container", self.container),
            ("GET", "/items", self.items),
            ("GET", "/item", self.item),
            ("GET", "/faults", self.faults),
            ("POST", "/faults/add", self.add_fault),
            ("POST", "/faults/remove", self.remove_fault),
            ("GET", "/requests", self.requests),
            ("GET", "/static/{name}", self.static),
        ]

    async def overview(self, request: Request) -> Response:
        ask = self._reader.ask
        containers = self._reader.containers()
        behind = [lately.behind for _, lately in containers]
        return self._page(
            request,
            "overview",
            regions=ask(looking.regions),
            links=ask(looking.links),
            behind=[_worst(each) for each in zip(*behind, strict=True)],
            containers=containers,
            requests=ask(lambda account: looking.requests(account, LATEST)),
            window=THROTTLED_S,
        )

    async def container(self, request: Request) -> Response:
        path = _asked(request, "path")
        container = self._reader.ask(lambda account: looking.container(account, path))
        ranges, heat = self._reader.load(container)
        return self._page(
            request,
            "container",
            container=container,
            ranges=ranges[:MOST_ROWS],
            hidden=len(ranges) - len(ranges[:MOST_ROWS]),
            picture=picture(heat),
            heat=heat,
            column=COLUMN_S,
            minutes=COLUMN_S * COLUMNS // 60,
            window=THROTTLED_S,
            definition=as_json(container.body),
        )

    async def items(self, request: Request) -> Response:
        ask, path = self._reader.ask, _asked(request, "path")
        container = ask(lambda account: looking.container(account, path))
        key, name = _asked(request, "key"), _asked(request, "id")
        if key or name:
            found = ask(lambda account: looking.find(account, path, key, name))
            return RedirectResponse(link("/item", path=path, number=found.number), 303)
        range_id = _asked(request, "range") or container.ranges[0]
        after = _whole(_asked(request, "after") or "-1", "after")
        page = ask(lambda account: looking.items(account, path, range_id, after, ITEMS))
        return self._page(request, "items", container=container, page=page, after=after)

    async def item(self, request: Request) -> Response:
        path, number = _asked(request, "path"), _whole(_asked(request, "number"), "number")
        whole = self._reader.ask(lambda account: looking.item(account, path, number))
        return self._page(request, "item", path=path, item=whole.item, body=whole.body, etags=whole.etags)

    async def faults(self, request: Request) -> Response:
        return self._faults(request)

    async def add_fault(self, request: Request) -> Response:
        fields = request.state.fields
        try:
            rule = rule_form.rule_of(fields)
            self._reader.ask(lambda account: account.admin.add_rule(rule))
        except UsageError as error:
            return self._faults(request, 400, str(error), fields)
        return RedirectResponse("/faults", 303)

    async def remove_fault(self, request: Request) -> Response:
        fields = request.state.fields
        if "all" in fields:
            self._reader.ask(lambda account: account.admin.clear_rules())
        else:
            number = _whole(fields.get("id", ""), "id")
            self._reader.ask(lambda account: account.admin.remove_rule(number))
        return RedirectResponse("/faults", 303)

    async def requests(self, request: Request) -> Response:
        container, status = _asked(request, "container"), _asked(request, "status")
        rows = self._reader.ask(lambda account: looking.requests(account, REQUESTS, container, status))
        return self._page(
            request,
            "requests",
            requests=rows,
            container=container,
            status=status,
            searched=SEARCHED,
            most=REQUESTS,
        )

    async def static(self, request: Request) -> Response:
        found = static(request.path_params["name"])
        return found if found is not None else self._pages.problem(404, "There is no such file.")

    def _faults(
        self, request: Request, status: int = 200, wrong: str = "", given: dict[str, str] | None = None
    ) -> Response:
        def asked(account: Any) -> Any:
            return account.admin.rules(), [each.path for each in looking.containers(account)]

        rules, containers = self._reader.ask(asked)
        return self._page(
            request,
            "faults",
            status,
            source="/faults",
            rules=rules[:MOST_ROWS],
            hidden=len(rules) - len(rules[:MOST_ROWS]),
            containers=containers,
            form=rule_form,
            wrong=wrong,
            given=given or {},
        )

    def _page(
        self, request: Request, name: str, code: int = 200, /, *, source: str = "", **values: Any
    ) -> Response:
        return self._pages.page(
            name,
            code,
            facts=self._reader.ask(looking.facts),
            here=request.url.path,
            source=source,
            token=self._token,
            token_name=TOKEN,
            **values,
        )


def _asked(request: Request, name: str) -> str:
    return request.query_params.get(name, "").strip()


def _whole(text: str, name: str) -> int:
    if not text.removeprefix("-").isdecimal() or len(text) > 15:
        raise UsageError(f"{name} is {text!r}: give it a whole number of at most 15 digits")
    return int(text)


def _worst(behind: tuple[tuple[int, float], ...]) -> tuple[int, float]:
    """Of several containers: what is lacked in all, and since when."""
    return sum(count for count, _ in behind), max(age for _, age in behind)


async def _problem(pages: Pages, status: int, _: Request, error: Exception) -> Response:
    return pages.problem(status, str(error))


async def _http_problem(pages: Pages, _: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return pages.problem(error.status_code, f"{error.detail}.")


async def _unknown_problem(pages: Pages, _: Request, __: Exception) -> Response:
    return pages.problem(500, "The page failed; the log of the lab says why.")
