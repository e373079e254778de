"""Resources as JSON, and back: an object with what is below it, for each."""

from __future__ import annotations

from typing import Any

from azlatch.lab.cosmos.container_definition import partition_key_of
from azlatch.lab.cosmos.resource_tree import ContainerResource, DatabaseResource, Resource


def dumped(resource: Resource) -> dict[str, Any]:
    """A resource with all that is below it, as JSON."""
    below = {kind: [dumped(each) for each in shelf] for kind, shelf in resource.shelves.items()}
    return {"number": resource.number, "body": resource.body, "below": below}


def database_of(state: dict[str, Any]) -> DatabaseResource:
    """The database that `dumped` gave, with all that is below it; its containers have no throughput yet."""
    database = DatabaseResource(state["number"], state["body"]["id"])
    _fill(database, state)
    return database


def size_of(resource: Resource) -> int:
    """How many resources it is with all that is below it."""
    return 1 + sum(size_of(each) for shelf in resource.shelves.values() for each in shelf)


def _fill(resource: Resource, state: dict[str, Any]) -> None:
    resource.take(state["body"])
    for kind, shelf in resource.shelves.items():
        for each in state["below"][kind]:
            child = _child(kind, resource, each)
            _fill(child, each)
            shelf.add(child)


def _child(kind: str, parent: Resource, state: dict[str, Any]) -> Resource:
    name = state["body"]["id"]
    if kind == "colls" and isinstance(parent, DatabaseResource):
        return ContainerResource(state["number"], parent, name, partition_key_of(state["body"]["partitionKey"]))
    return Resource(kind, state["number"], parent, name)
