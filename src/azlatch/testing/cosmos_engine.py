"""The engine without HTTP: requests as the SDK would send them, on a clock that the test moves."""

from __future__ import annotations

import json
from typing import Any

from azlatch.lab.cosmos.account import Account
from azlatch.lab.cosmos.wire import Reply, Request

START = 1_700_000_000.0


class Engine:
    """An account with a database `d` and a container `c` with the partition key /pk."""

    def __init__(
        self, *, throughput: int = 400, container: dict[str, Any] | None = None, **options: Any
    ) -> None:
        self.account = Account(**{"throttling": False, **options})
        self.now = START
        self.ok("POST", "/dbs", {"id": "d"})
        definition = {
            "id": "c",
            "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
            **(container or {}),
        }
        self.ok("POST", "/dbs/d/colls", definition, {"x-ms-offer-throughput": str(throughput)})

    @property
    def admin(self) -> Any:
        return self.account.admin

    @property
    def store(self) -> Any:
        return self.account.service.stores[self.account.resources.container("d", "c").rid]

    def tick(self, seconds: float) -> None:
        """Lets time pass."""
        self.now += seconds
        self.account.at(self.now)

    def send(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, region: str = ""
    ) -> Reply:
        """One request."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return self.account.handle(Request(method, path, headers or {}, data, region), self.now)

    def ok(self, *arguments: Any, **options: Any) -> Any:
        """The body of one that has to succeed."""
        reply = self.send(*arguments, **options)
        assert reply.status < 300, (arguments, reply.status, reply.body)
        return json.loads(reply.body) if reply.body else None

    # -- items ---------------------------------------------------------------------------------------

    def create(self, document: dict[str, Any], region: str = "", **headers: str) -> Reply:
        return self.send("POST", "/dbs/d/colls/c/docs/", document, self._key(document["pk"], headers), region)

    def upsert(self, document: dict[str, Any], region: str = "", **headers: str) -> Reply:
        return self.create(document, region, x_ms_documentdb_is_upsert="True", **headers)

    def read(self, name: str, pk: Any, region: str = "", **headers: str) -> Reply:
        return self.send("GET", f"/dbs/d/colls/c/docs/{name}", None, self._key(pk, headers), region)

    def replace(self, document: dict[str, Any], region: str = "", **headers: str) -> Reply:
        path = f"/dbs/d/colls/c/docs/{document['id']}"
        return self.send("PUT", path, document, self._key(document["pk"], headers), region)

    def delete(self, name: str, pk: Any, region: str = "", **headers: str) -> Reply:
        return self.send("DELETE", f"/dbs/d/colls/c/docs/{name}", None, self._key(pk, headers), region)

    def patch(self, name: str, pk: Any, operations: list[Any], condition: str = "", **headers: str) -> Reply:
        body = {"operations": operations, **({"condition": condition} if condition else {})}
        return self.send("PATCH", f"/dbs/d/colls/c/docs/{name}", body, self._key(pk, headers))

    def batch(self, pk: Any, operations: list[dict[str, Any]], region: str = "") -> Reply:
        headers = {"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "True"}
        return self.send("POST", "/dbs/d/colls/c/docs/", operations, {**self._key(pk, {}), **headers}, region)

    def query(self, text: str, pk: Any = None, **headers: str) -> Reply:
        given = {"x-ms-documentdb-isquery": "True", "content-type": "application/query+json"}
        key = self._key(pk, headers) if pk is not None else {k.replace("_", "-"): v for k, v in headers.items()}
        return self.send("POST", "/dbs/d/colls/c/docs/", {"query": text}, {**given, **key})

    @staticmethod
    def _key(pk: Any, headers: dict[str, str]) -> dict[str, str]:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return {"x-ms-documentdb-partitionkey": json.dumps([pk]), **given}


def substatus(reply: Reply) -> int:
    """What tells an error from others of its status."""
    return int(reply.headers.get("x-ms-substatus", "0"))


def document(reply: Reply) -> dict[str, Any]:
    """The body of an answer."""
    found: dict[str, Any] = json.loads(reply.body)
    return found
