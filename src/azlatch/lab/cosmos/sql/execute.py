"""Queries on items: `execute`, and the body of a request that asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from azlatch.lab.cosmos.errors import bad_request
from azlatch.lab.cosmos.sql.ast import Query
from azlatch.lab.cosmos.sql.functions import Context
from azlatch.lab.cosmos.sql.limits import Limits, Meter, too_deep
from azlatch.lab.cosmos.sql.parser import parse
from azlatch.lab.cosmos.sql.pipeline import Pipeline
from azlatch.lab.cosmos.sql.values import UNDEFINED
from azlatch.lab.cosmos.wire import decode

#: Most parameters of one request.
_MOST_PARAMETERS = 5_000


class Execution(Iterator[Any]):
    """The results of one query, made as they are asked for, and what they took so far.

    `read` items were looked at, `produced` values were given; after each value `within` is how many of them the
    last item led to, which together say where a later request can go on (see `paging`).
    """

    def __init__(self, results: Iterator[Any], meter: Meter) -> None:
        self._results = results
        self._meter = meter
        self._last = -1
        self.within = 0

    @property
    def read(self) -> int:
        """Items read so far."""
        return self._meter.read

    @property
    def produced(self) -> int:
        """Values given so far."""
        return self._meter.produced

    @property
    def steps(self) -> int:
        """Steps of evaluation so far, in the units of `Limits.steps`."""
        return self._meter.steps

    def __next__(self) -> Any:
        try:
            value = next(self._results)
        except RecursionError:
            raise too_deep() from None
        meter = self._meter
        meter.produced += 1
        self.within = self.within + 1 if meter.read == self._last else 1
        self._last = meter.read
        return value


def execute(
    query: Query,
    parameters: Mapping[str, Any],
    rows: Iterable[Mapping[str, Any]],
    *,
    limits: Limits | None = None,
    now: float = 0.0,
    sorted_missing: bool = False,
) -> Execution:
    """The results of a query on items, one by one, as values of JSON.

    Results share parts with the items: they are not to be changed.

    Args:
        query: of `parse`.
        parameters: values by name, the names with their @.
        rows: the items. They are read as far as the results are asked for, where ORDER BY, GROUP BY and
            aggregates do not need all of them first.
        limits: what the query may use.
        now: seconds since 1970, for the functions that ask for the time.
        sorted_missing: whether ORDER BY with one key also gives items in which it is undefined. The service
            does so only if the indexing policy names the path itself (documentation of ORDER BY); with several
            keys it always does.

    Raises:
        ServiceError: 400 for a query that the service refuses, at once; 400 for one that goes beyond its
            limits, while it runs.
    """
    meter = Meter(limits or Limits())
    pipeline = Pipeline(Context(meter, now), parameters, rows, sorted_missing)
    try:
        results = pipeline.compile(query)
    except RecursionError:
        raise too_deep() from None
    return Execution(results([UNDEFINED] * pipeline.slots.count), meter)


def request_of(body: bytes) -> tuple[Query, dict[str, Any]]:
    """The query and the parameters in the body of a request.

    Raises:
        ServiceError: 400 for a body or a query that is none.
    """
    try:
        request = decode(body)
    except ValueError:
        raise bad_request("The query body is not valid JSON.") from None
    if not isinstance(request, dict) or not isinstance(request.get("query"), str):
        raise bad_request("The query body has to be an object with the SQL text in 'query'.")
    given = request.get("parameters")
    if given is None:
        given = []
    if not isinstance(given, list) or len(given) > _MOST_PARAMETERS:
        raise bad_request("The 'parameters' of a query have to be a list of names and values.")
    parameters: dict[str, Any] = {}
    for each in given:
        if (
            not isinstance(each, dict)
            or not isinstance(each.get("name"), str)
            or not each["name"].startswith("@")
        ):
            raise bad_request("Each of the 'parameters' needs a 'name' that starts with '@'.")
        # Without a value the parameter is undefined.
        parameters[each["name"]] = each.get("value", UNDEFINED)
    return parse(request["query"]), parameters
