"""What a pair costs in our own code: the SDK's pipeline on answers that are there at once."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from email.utils import formatdate
from io import BytesIO
from typing import Any

import requests
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import BlobLeaseClient, ContainerClient
from requests.adapters import BaseAdapter
from urllib3 import HTTPResponse

import azlatch
from azlatch.backends.blob import BlobBackend
from azlatch.backends.storage_account import EMULATOR_KEY

_BATCH = 50


class _Canned(BaseAdapter):
    """Grants every lease and remembers the metadata, so that what is read back is what was written."""

    def __init__(self) -> None:
        super().__init__()
        self._version = 0

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        asked = request.headers
        answer = requests.Response()
        answer.request = request
        answer.url = request.url or ""
        answer.status_code = 201 if asked.get("x-ms-lease-action") == "acquire" else 200
        answer.reason = "OK"
        if "x-ms-lease-action" not in asked and request.method == "PUT":
            self._version += 1
        headers = {
            "Date": formatdate(usegmt=True),
            "Last-Modified": formatdate(usegmt=True),
            "ETag": f'"{self._version}"',
            "x-ms-request-id": "1",
            "x-ms-lease-id": asked.get("x-ms-proposed-lease-id", ""),
            "x-ms-lease-state": "available",
            "x-ms-lease-status": "unlocked",
            "x-ms-blob-type": "BlockBlob",
            "Content-Length": "0",
        }
        answer.headers.update(headers)
        answer.raw = HTTPResponse(
            body=BytesIO(b""), headers=headers, status=answer.status_code, preload_content=False
        )
        return answer

    def close(self) -> None:
        pass


def measure(*, rounds: int, pairs: int) -> dict[str, float]:
    """Seconds of this process's processors per pair, medians of rounds in which all take turns."""
    runs: dict[str, Callable[[], None]] = {}
    with (
        azlatch.connect(backend=BlobBackend(_container())) as fenced,
        azlatch.connect(backend=BlobBackend(_container()), fence=False) as plain,
    ):
        blob = _container().get_blob_client("raw")

        def bare() -> None:
            lease = BlobLeaseClient(blob)
            lease.acquire(lease_duration=30)
            lease.release()

        def described() -> None:
            lease = BlobLeaseClient(blob)
            lease.acquire(lease_duration=30)
            blob.set_blob_metadata({"fence": "1", "holder": "x" * 120}, lease=lease)
            lease.release()

        runs["fence=False"] = lambda: plain.acquire("pair", ttl=30).release()
        runs["raw, 2 requests"] = bare
        runs["with the fence"] = lambda: fenced.acquire("pair", ttl=30).release()
        runs["raw, 3 requests"] = described
        spent: dict[str, list[float]] = {label: [] for label in runs}
        for turn in range(-1, rounds):
            for label, run in runs.items():
                began = time.process_time()
                for _ in range(pairs if turn >= 0 else _BATCH):
                    run()
                if turn >= 0:
                    spent[label].append((time.process_time() - began) / pairs)
    return {label: statistics.median(series) for label, series in spent.items()}


def _container() -> ContainerClient:
    session = requests.Session()
    session.mount("http://", _Canned())
    transport: Any = RequestsTransport(session=session, session_owner=False)
    key = {"account_name": "devstoreaccount1", "account_key": EMULATOR_KEY}
    return ContainerClient("http://127.0.0.1:1/devstoreaccount1", "bench", credential=key, transport=transport)
