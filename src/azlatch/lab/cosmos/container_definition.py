"""The definition of a container: what the SDK sends, checked, with the defaults that the service gives back.

Sources: the REST reference of collections, concepts-limits, the SDK's own tests; wording of the refusals of a
replacement from public issues (azure-sdk-for-python 40070, azure-powershell 11383).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from azlatch.lab.cosmos import vector_policy
from azlatch.lab.cosmos.errors import ServiceError, bad_request
from azlatch.lab.cosmos.field import as_int, as_list, as_object, as_text, invalid
from azlatch.lab.cosmos.indexing_policy import indexing_policy_of, path_of
from azlatch.lab.cosmos.partition_key import PartitionKeyDefinition

_MOST_TTL = 2_147_483_647
_MOST_UNIQUE_KEYS = 10
_MOST_PATHS_OF_UNIQUE_KEY = 16
_MOST_COMPUTED = 20
_LANGUAGES = ("en-US", "fr-FR", "de-DE", "it-IT", "pt-BR", "pt-PT", "es-ES")
_SYSTEM_PROPERTIES = frozenset(("id", "_rid", "_ts", "_self", "_etag", "_attachments"))
_LAST_WRITER_WINS = {
    "mode": "LastWriterWins",
    "conflictResolutionPath": "/_ts",
    "conflictResolutionProcedure": "",
}
_INDEX_CANNOT_CHANGE = (
    "The unique index cannot be modified."
    " To change the unique index, remove the collection and re-create a new one."
)


def container_definition_of(body: dict[str, Any]) -> dict[str, Any]:
    """What a container is made of, without its id: complete, in the service's order.

    Raises:
        ServiceError: 400 for a definition that the service refuses.
    """
    content: dict[str, Any] = {
        "indexingPolicy": indexing_policy_of(body),
        "partitionKey": partition_key_of(body.get("partitionKey")).to_json(),
    }
    for name, check in _OPTIONAL.items():
        # The SDK leaves out what is None; null from others means the same.
        if body.get(name) is not None:
            content[name] = check(body[name])
    content.setdefault("conflictResolutionPolicy", dict(_LAST_WRITER_WINS))
    content.setdefault("geospatialConfig", {"type": "Geography"})
    return content


def check_replacement(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Refuses what cannot change: partition key, unique keys, conflict resolution, vectors.

    The service takes a missing unique key policy for a changed one, so that the SDK's `replace_container`,
    which never sends it, fails on a container with unique keys; here, too.

    Raises:
        ServiceError: 400, for the unique keys 403.
    """
    if new["partitionKey"] != old["partitionKey"]:
        raise bad_request("Document collection partition key cannot be changed.")
    if _unique_keys_of(new) != _unique_keys_of(old):
        raise ServiceError(403, _INDEX_CANNOT_CHANGE)
    if new["conflictResolutionPolicy"] != old["conflictResolutionPolicy"]:
        raise bad_request("Updating the conflict resolution policy is not supported.")
    vector_policy.check_unchanged(old, new)


def partition_key_of(value: Any) -> PartitionKeyDefinition:
    """The partition key definition that a container must have."""
    if value is None:
        raise bad_request("The partition key definition of the container is missing.", 1013)
    return PartitionKeyDefinition.of(value)


def _unique_keys_of(content: dict[str, Any]) -> list[frozenset[str]]:
    return sorted(
        (frozenset(each["paths"]) for each in content.get("uniqueKeyPolicy", {}).get("uniqueKeys", ())),
        key=sorted,
    )


def _ttl(value: Any) -> int:
    seconds = as_int(value)
    if seconds != -1 and not 1 <= seconds <= _MOST_TTL:
        raise bad_request(
            f"The value {seconds} of the time to live is invalid: it is -1, or from 1 to {_MOST_TTL} seconds."
        )
    return seconds


def _unique_key_policy(value: Any) -> dict[str, Any]:
    keys = []
    for each in as_list(as_object(value).get("uniqueKeys") or []):
        paths = [path_of(path, "The unique key path") for path in as_list(as_object(each).get("paths"))]
        if not paths or len(set(paths)) < len(paths):
            raise bad_request("A unique key has at least one path, and none of them twice.")
        keys.append({"paths": paths})
    if len(keys) > _MOST_UNIQUE_KEYS or sum(len(each["paths"]) for each in keys) > _MOST_PATHS_OF_UNIQUE_KEY:
        raise bad_request(
            f"A container has at most {_MOST_UNIQUE_KEYS} unique keys, with {_MOST_PATHS_OF_UNIQUE_KEY} paths"
            " in all."
        )
    return {"uniqueKeys": keys}


def _conflict_resolution(value: Any) -> dict[str, Any]:
    mode = str(as_object(value).get("mode") or "LastWriterWins").lower()
    path, procedure = value.get("conflictResolutionPath") or "", value.get("conflictResolutionProcedure") or ""
    if mode == "lastwriterwins" and not procedure:
        return {
            **_LAST_WRITER_WINS,
            "conflictResolutionPath": path_of(path or "/_ts", "The conflict resolution path"),
        }
    if mode == "custom" and not path and isinstance(procedure, str):
        return {"mode": "Custom", "conflictResolutionPath": "", "conflictResolutionProcedure": procedure}
    raise bad_request(
        "The conflict resolution policy is 'LastWriterWins' with a path, or 'Custom' with a procedure or none."
    )


def _computed(value: Any) -> list[dict[str, str]]:
    properties = [
        {"name": as_text(as_object(each).get("name")), "query": as_text(each.get("query"))}
        for each in as_list(value)
    ]
    names = {each["name"] for each in properties}
    if len(properties) > _MOST_COMPUTED or len(names) < len(properties) or names & _SYSTEM_PROPERTIES:
        raise bad_request(
            f"A container has at most {_MOST_COMPUTED} computed properties; their names are distinct, and none"
            " is a system's."
        )
    for each in properties:
        if [word.upper() for word in each["query"].split(None, 2)[:2]] != ["SELECT", "VALUE"]:
            raise bad_request("The query of a computed property begins with SELECT VALUE.")
    return properties


def _full_text_policy(value: Any) -> dict[str, Any]:
    policy = as_object(value)
    languages = [policy.get("defaultLanguage")]
    for each in as_list(policy.get("fullTextPaths") or []):
        path = as_text(as_object(each).get("path"))
        if not path.startswith("/"):
            raise bad_request(f"The Full Text Policy contains an invalid Path: {path[:80]}")
        languages.append(each.get("language"))
    for language in languages:
        if language is not None and language not in _LANGUAGES:
            raise bad_request(f"The Full Text Policy contains an unsupported language: {str(language)[:40]}")
    return policy


def _geospatial(value: Any) -> dict[str, Any]:
    config = as_object(value)
    if config.get("type") not in ("Geography", "Geometry"):
        raise bad_request("The type of the geospatial configuration is 'Geography' or 'Geometry'.")
    return config


def _change_feed_policy(value: Any) -> dict[str, Any]:
    policy = as_object(value)
    if as_int(policy.get("retentionDuration", 0)) < 0:
        raise bad_request("The retention duration of the change feed policy is not negative, in minutes.")
    return policy


def _view(value: Any) -> dict[str, Any]:
    view = as_object(value)
    if not view.get("sourceCollectionId") and not view.get("sourceCollectionRid"):
        raise invalid()
    return {**view, "definition": as_text(view.get("definition"))}


_OPTIONAL: dict[str, Callable[[Any], Any]] = {
    "defaultTtl": _ttl,
    "uniqueKeyPolicy": _unique_key_policy,
    "conflictResolutionPolicy": _conflict_resolution,
    "geospatialConfig": _geospatial,
    "computedProperties": _computed,
    "vectorEmbeddingPolicy": vector_policy.check_embeddings,
    "fullTextPolicy": _full_text_policy,
    "analyticalStorageTtl": _ttl,
    "changeFeedPolicy": _change_feed_policy,
    "clientEncryptionPolicy": as_object,
    "materializedViewDefinition": _view,
    "globalSecondaryIndexDefinition": _view,
}
