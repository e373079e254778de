"""The requests of the Cosmos DB latch on the lab's engine: no socket, no SDK, and a clock that tests drive.

It keeps `azlatch.backends.cosmos_service.CosmosService`, so that the real backend runs on it, in virtual time
or in real. What the SDK does for the real service is here in a few lines: session tokens are remembered and
sent along with reads, and the write region is looked up again once it turned out to be another one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

from azlatch.backends.cosmos_service import Account, Answer, Document
from azlatch.backends.cosmos_words import BEHIND, MOVED, Answered, in_words, wrong_key
from azlatch.errors import BackendMisconfigured
from azlatch.lab.cosmos.wire import Reply, Request
from azlatch.testing.cosmos_engine import START, Engine

_BASE = "/dbs/d/colls/c/docs/"
_DEFINITION = {
    "partitionKey": {"paths": ["/id"], "kind": "Hash", "version": 2},
    "defaultTtl": -1,
    "indexingPolicy": {
        "indexingMode": "consistent",
        "includedPaths": [{"path": "/state/?"}, {"path": "/fence/?"}, {"path": "/azlatch/?"}],
        "excludedPaths": [{"path": "/*"}],
    },
}

#: What carries a request to an account and its reply back; the flag says that it only reads, the other that it
#: is part of an acquire.
Carry = Callable[[float, Callable[[], Reply], bool, bool], Reply]


class SimulatedCosmos:
    """An account with a container for latches, shared by every `SimulatedCosmosService` on it.

    Args:
        now: seconds since any moment.
        options: of the lab's account.
    """

    def __init__(self, now: Callable[[], float], **options: Any) -> None:
        self.lock = threading.Lock()
        self.engine = Engine(container=_DEFINITION, **options)
        self._now = now
        self._zero = now()
        #: Told of every request that was carried out.
        self.on_request: Callable[[Request, Reply], None] = lambda request, reply: None
        #: Set by mutants: conditions that are not looked at.
        self.ignores_etags = False

    @property
    def time(self) -> float:
        """The service's time."""
        return START + self._now() - self._zero

    def handle(self, request: Request) -> Reply:
        """One request, at the account; its reply has a Date."""
        if self.ignores_etags:
            request.headers = {name: value for name, value in request.headers.items() if name != "if-match"}
        with self.lock:
            now = self.time
            reply = self.engine.account.handle(request, now)
            reply.headers["x-simulated-now"] = str(int(now))
            self.on_request(request, reply)
        return reply

    def items(self) -> dict[str, dict[str, Any]]:
        """All items as they are where they are written, by their ids."""
        self.engine.account.at(self.time)
        found = {}
        for part in self.engine.store.parts:
            part.advance(self.time)
            for key in part.keys.values():
                for name, history in key.items.items():
                    version = history.show(None)
                    if version is not None and version.body is not None:
                        found[name] = version.document
        return found


def _straight(until: float, at_store: Callable[[], Reply], reads: bool, acquires: bool) -> Reply:
    return at_store()


class SimulatedCosmosService:
    """One client of the account.

    Args:
        carry: the way to it; by default one that loses nothing.
        by_region: whether it knows the regions and asks the one that takes the writes, or the account's
            endpoint, which leads there by itself.
    """

    def __init__(self, cosmos: SimulatedCosmos, carry: Carry = _straight, *, by_region: bool = True) -> None:
        self.cosmos = cosmos
        self._carry = carry
        self._by_region = by_region
        self._region = ""
        self._token = ""

    def prepare(self, until: float, *, create: bool) -> Account:
        description = self.cosmos.engine.account.description()
        paths = self.cosmos.engine.account.resources.container("d", "c").definition.paths
        if list(paths) != ["/id"]:
            raise BackendMisconfigured(wrong_key("the container"))
        self._look_up()
        return Account(
            tuple(each["name"] for each in description["writableLocations"]),
            tuple(each["name"] for each in description["readableLocations"]),
            description["userConsistencyPolicy"]["defaultConsistencyLevel"],
        )

    def read(self, key: str, until: float) -> Answer:
        headers = {"x-ms-session-token": self._token} if self._token else {}
        try:
            return self._send("GET", key, None, headers, until, reads=True)
        except Answered as answered:
            if answered.code == (404, 0):
                return Answer(None, float(answered.headers["x-simulated-now"]))
            raise in_words(answered, writes=False) from None

    def create(self, document: Document, until: float) -> Answer:
        return self._write("POST", str(document["id"]), document, {}, until, acquires=True)

    def replace(self, document: Document, etag: str, until: float) -> Answer:
        return self._write("PUT", str(document["id"]), document, {"if-match": etag}, until, acquires=True)

    def patch(
        self,
        key: str,
        operations: Sequence[Document],
        until: float,
        *,
        condition: str | None = None,
        etag: str | None = None,
        quiet: bool = False,
    ) -> Answer:
        body = {"operations": list(operations), **({"condition": condition} if condition is not None else {})}
        headers = {**({"if-match": etag} if etag else {}), **({"prefer": "return=minimal"} if quiet else {})}
        return self._write("PATCH", key, body, headers, until)

    def delete(self, key: str, etag: str, until: float) -> None:
        self._write("DELETE", key, None, {"if-match": etag}, until)

    def query(
        self, text: str, parameters: Sequence[Document], until: float
    ) -> tuple[list[Document], float | None]:
        body = {"query": text, "parameters": list(parameters)}
        headers = {
            "x-ms-documentdb-isquery": "True",
            "content-type": "application/query+json",
            "x-ms-documentdb-query-enablecrosspartition": "True",
            "x-ms-documentdb-partitionkeyrangeid": "0",
        }
        reply = self._carry(
            until, lambda: self.cosmos.handle(self._request("POST", "", body, headers)), True, False
        )
        if reply.status >= 400:
            raise in_words(self._answered(reply), writes=False)
        return json.loads(reply.body)["Documents"], float(reply.headers["x-simulated-now"])

    def close(self) -> None:
        """Nothing is open."""

    # -- how a request is made -----------------------------------------------------------------------

    def _write(
        self, method: str, key: str, body: Any, headers: dict[str, str], until: float, *, acquires: bool = False
    ) -> Answer:
        try:
            return self._send(method, key, body, headers, until, acquires=acquires)
        except Answered as answered:
            raise in_words(answered, writes=True) from None

    def _send(
        self,
        method: str,
        key: str,
        body: Any,
        headers: dict[str, str],
        until: float,
        *,
        reads: bool = False,
        acquires: bool = False,
    ) -> Answer:
        named = {"x-ms-documentdb-partitionkey": json.dumps([key]), **headers}
        request = self._request(method, "" if method == "POST" else key, body, named)
        reply = self._carry(until, lambda: self.cosmos.handle(request), reads, acquires)
        if reply.status >= 400:
            raise self._answered(reply)
        self._token = reply.headers.get("x-ms-session-token", self._token)
        return Answer(json.loads(reply.body) if reply.body else None, float(reply.headers["x-simulated-now"]))

    def _request(self, method: str, key: str, body: Any, headers: dict[str, str]) -> Request:
        data = b"" if body is None else json.dumps(body).encode()
        return Request(method, _BASE + key, headers, data, self._region)

    def _answered(self, reply: Reply) -> Answered:
        answered = Answered(reply.status, reply.headers)
        if answered.code == BEHIND:
            self._token = ""
        if answered.code in MOVED or answered.is_silence:
            self._look_up()
        return answered

    def _look_up(self) -> None:
        if self._by_region:
            self._region = self.cosmos.engine.account.topology.write.name
