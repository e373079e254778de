"""What each kind of resource is made of, how many there may be, and what its feed is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from azlatch.lab.cosmos.container_definition import container_definition_of
from azlatch.lab.cosmos.errors import bad_request
from azlatch.lab.cosmos.field import as_object, as_text
from azlatch.lab.cosmos.permissions import permission_of

#: Most resources of an account in all; the service has 500 databases and containers, and no other bound.
MOST_RESOURCES = 10_000
_TRIGGER_TYPES = ("pre", "post")
_TRIGGER_OPERATIONS = ("all", "create", "update", "replace", "delete")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of resource."""

    #: The name of the list in a feed.
    feed: str
    #: From the body of a request what is stored, without the id.
    content_of: Callable[[dict[str, Any]], dict[str, Any]]
    #: Most of them with one parent.
    most: int = MOST_RESOURCES
    #: Whether PUT is possible, and whether it may change the id.
    replaced: bool = True
    renamed: bool = False
    upserted: bool = False


def _nothing(_body: dict[str, Any]) -> dict[str, Any]:
    return {}


def _script(body: dict[str, Any]) -> dict[str, Any]:
    return {"body": as_text(body.get("body"))}


def _trigger(body: dict[str, Any]) -> dict[str, Any]:
    kind, operation = as_text(body.get("triggerType")), as_text(body.get("triggerOperation"))
    if kind.lower() not in _TRIGGER_TYPES or operation.lower() not in _TRIGGER_OPERATIONS:
        raise bad_request(
            "A trigger has a triggerType (Pre, Post) and a triggerOperation (All, Create and so on)."
        )
    return {**_script(body), "triggerType": kind, "triggerOperation": operation}


def _encryption_key(body: dict[str, Any]) -> dict[str, Any]:
    return {
        "encryptionAlgorithm": as_text(body.get("encryptionAlgorithm")),
        "wrappedDataEncryptionKey": as_text(body.get("wrappedDataEncryptionKey")),
        "keyWrapMetadata": as_object(body.get("keyWrapMetadata")),
    }


#: By kind as paths spell it. The numbers of scripts are those of concepts-limits.
KINDS: dict[str, Kind] = {
    "dbs": Kind("Databases", _nothing, replaced=False),
    "colls": Kind("DocumentCollections", container_definition_of),
    "users": Kind("Users", _nothing, renamed=True, upserted=True),
    "permissions": Kind("Permissions", permission_of, renamed=True, upserted=True),
    "clientencryptionkeys": Kind("ClientEncryptionKeys", _encryption_key),
    "sprocs": Kind("StoredProcedures", _script, most=100, renamed=True, upserted=True),
    "triggers": Kind("Triggers", _trigger, most=25, renamed=True, upserted=True),
    "udfs": Kind("UserDefinedFunctions", _script, most=50, renamed=True, upserted=True),
}
