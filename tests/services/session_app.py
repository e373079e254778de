"""A small web application on Cosmos DB, as one instance of several: session_app.py NUMBER PORT ENDPOINT KEY.

It counts orders. With a session or without one it is the same application: the header decides.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from urllib.parse import parse_qs

import uvicorn
from azure.core.exceptions import AzureError
from azure.cosmos.aio import CosmosClient

from azlatch import contracts
from azlatch.contracts.session_http import current

KEY = contracts.SessionKey("test", b"a secret of the test's own, shared by both")


def edge() -> contracts.SessionEdge:
    """The same on both instances, and in the test."""
    return contracts.SessionEdge([KEY], account="contoso", containers=["dbs/shop/colls/orders"])


class Application:
    """PUT /orders/ID?n=N writes, GET /orders/ID reads; both say which instance answered."""

    def __init__(self, name: str, endpoint: str, key: str) -> None:
        self._name = name
        # The first instance is near the write region; the second one reads far from it, and nowhere else.
        near = ["West US", "East US"] if name == "1" else ["East US"]
        self._options = {"excluded_locations": [] if name == "1" else ["West US"]}
        self._client = CosmosClient(endpoint, key, preferred_locations=near)

    async def start(self) -> None:
        """Opens the connection to the account."""
        await self._client.__aenter__()
        self._orders = self._client.get_database_client("shop").get_container_client("orders")

    async def stop(self) -> None:
        """Closes it."""
        await self._client.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        status, said = await self._answer(scope)
        body = json.dumps({"instance": self._name, **said}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Any) -> tuple[int, dict[str, Any]]:
        orders = current(scope).track(self._orders)
        name = scope["path"].rpartition("/")[2]
        try:
            if scope["path"] == "/health":
                return 200, {}
            if scope["method"] == "PUT":
                n = int(parse_qs(scope["query_string"].decode())["n"][0])
                await orders.upsert_item({"id": name, "customer": name, "n": n})
                return 200, {"n": n}
            item = await orders.read_item(name, name, deadline=2, **self._options)
            return 200, {"n": item["n"]}
        except contracts.BehindSession as behind:
            return 503, {"error": behind.code}
        except AzureError as error:
            return getattr(error, "status_code", None) or 500, {"error": type(error).__name__}


def main() -> None:
    """Serves until the process is ended."""
    number, port, endpoint, key = sys.argv[1:]
    application = Application(number, endpoint, key)
    wrapped = contracts.AsgiSessions(application, contracts.SessionHttp(edge()))

    async def with_life(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await wrapped(scope, receive, send)
            return
        await receive()
        await application.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await application.stop()
        await send({"type": "lifespan.shutdown.complete"})

    uvicorn.run(with_life, host="127.0.0.1", port=int(port), log_level="warning", lifespan="on")


if __name__ == "__main__":
    main()
