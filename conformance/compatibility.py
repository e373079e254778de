"""Writes COMPATIBILITY.md: what the lab's Cosmos DB answers, and whether a live account answers the same.

    python conformance/compatibility.py            # writes the file; with a live account compares it, too
    python conformance/compatibility.py --check    # says whether the file is what this version answers

A live account is the one of AZLATCH_TEST_COSMOS_CONNECTION_STRING. A database is made there and deleted again.
"""

from __future__ import annotations

import argparse
import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from azure.core.exceptions import AzureError
from azure.cosmos import CosmosClient, PartitionKey

from azlatch.lab.cosmos import CosmosLab
from behaviours import ALL, Place

FILE = Path(__file__).resolve().parent.parent / "COMPATIBILITY.md"
LIVE = "AZLATCH_TEST_COSMOS_CONNECTION_STRING"
_HEAD = """# What the lab's Cosmos DB answers

Made by `python conformance/compatibility.py`, through the unmodified SDK; do not edit. The last column is what
a live account says to the same: MATCH, DIFFERS (with its answer), or NOT OFFERED where it cannot be tried.

{verdict}

| of | situation | the lab | live |
|---|---|---|---|
"""
_NEVER = (
    "**No row was ever compared with a live account.** What the lab answers comes from documents, from the "
    "SDK's source and tests, and from public reports."
)


@contextmanager
def place(connection_string: str) -> Iterator[Place]:
    """A database to try things in, which is gone afterwards."""
    with CosmosClient.from_connection_string(connection_string) as client:
        database = client.create_database(f"azlatch-{uuid.uuid4().hex}")
        try:
            yield Place(database, database.create_container("c", PartitionKey("/pk")))
        finally:
            client.delete_database(database.id)


def observed(where: Place) -> list[str]:
    """What each behaviour comes to; an error that it does not foresee is told, too."""
    found = []
    for each in ALL:
        try:
            found.append(each.observe(where))
        except AzureError as error:
            found.append(f"NOT OFFERED ({type(error).__name__} {getattr(error, 'status_code', '')})")
    return found


def table(lab: list[str], live: list[str] | None) -> str:
    """The file."""
    rows = []
    for number, (behaviour, answer) in enumerate(zip(ALL, lab, strict=True)):
        told = "never compared"
        if live is not None:
            other = live[number]
            told = "MATCH" if other == answer else other if other.startswith("NOT") else f"DIFFERS: {other}"
        rows.append(f"| {behaviour.part} | {behaviour.question} | {answer} | {told} |")
    verdict = _NEVER
    if live is not None:
        same = sum(mine == theirs for mine, theirs in zip(lab, live, strict=True))
        verdict = f"Compared with a live account: {same} of {len(lab)} answers match."
    return _HEAD.format(verdict=verdict) + "\n".join(rows) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="What the lab's Cosmos DB answers, beside a live account.")
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    options = parser.parse_args(arguments)
    with CosmosLab() as lab, place(lab.connection_string) as here:
        answers = observed(here)
    live = None
    if os.environ.get(LIVE):
        with place(os.environ[LIVE]) as there:
            live = observed(there)
    made = table(answers, live)
    if options.check:
        same = FILE.is_file() and FILE.read_text(encoding="utf-8") == made
        print(f"compatibility: {FILE.name} " + ("is what this version answers" if same else "is out of date"))
        return 0 if same else 1
    FILE.write_text(made, encoding="utf-8")
    print(f"compatibility: {len(answers)} behaviours, written to {FILE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
