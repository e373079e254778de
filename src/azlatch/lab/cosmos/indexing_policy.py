"""The indexing policy of a container: what is sent, with the service's defaults filled in."""

from __future__ import annotations

from typing import Any

from azlatch.lab.cosmos import vector_policy
from azlatch.lab.cosmos.errors import bad_request
from azlatch.lab.cosmos.field import as_list, as_object, invalid

_ROOTS = ("/", "/*")
_ETAG_PATH = '/"_etag"/?'
_SPATIAL_TYPES = ("Point", "LineString", "Polygon", "MultiPolygon")
_MOST_COMPOSITES = 100
_MOST_IN_COMPOSITE = 8


def indexing_policy_of(body: dict[str, Any]) -> dict[str, Any]:
    """The policy in the definition of a container, complete.

    Raises:
        ServiceError: 400 for a policy that the service refuses.
    """
    sent = as_object(body.get("indexingPolicy") or {})
    mode = str(sent.get("indexingMode") or "consistent").lower()
    automatic = sent.get("automatic", mode != "none")
    if mode not in ("consistent", "none") or not isinstance(automatic, bool):
        raise bad_request(f"The indexing mode {mode[:40]!r} is not possible: it is 'consistent' or 'none'.")
    if mode == "none" and automatic:
        raise bad_request("If the indexing mode is set to None, then automatic indexing must be turned off.")
    included, excluded = _paths_of(sent, "includedPaths"), _paths_of(sent, "excludedPaths")
    policy: dict[str, Any] = {"indexingMode": mode, "automatic": automatic}
    if mode == "consistent":
        _complete(included, excluded)
    policy |= {"includedPaths": included, "excludedPaths": excluded}
    if composites := _composites(sent):
        policy["compositeIndexes"] = composites
    if spatial := _spatial(sent):
        policy["spatialIndexes"] = spatial
    if "vectorIndexes" in sent:
        policy["vectorIndexes"] = vector_policy.check_indexes(as_list(sent["vectorIndexes"]), body)
    if "fullTextIndexes" in sent:
        policy["fullTextIndexes"] = _full_text(as_list(sent["fullTextIndexes"]), body)
    return policy


def path_of(value: Any, what: str = "The indexing path") -> str:
    """A path that begins as one, at most 1,024 characters."""
    if not isinstance(value, str):
        raise invalid()
    if not value.startswith("/") or len(value) > 1_024:
        raise bad_request(f"{what} '{value[:80]}' could not be accepted: it must begin with '/'.")
    return value


def _paths_of(sent: dict[str, Any], name: str) -> list[dict[str, Any]]:
    # `indexes` with kinds and precisions is of the first index version: accepted, and not given back.
    return [{"path": path_of(as_object(each).get("path"))} for each in as_list(sent.get(name) or [])]


def _complete(included: list[dict[str, Any]], excluded: list[dict[str, Any]]) -> None:
    paths = {each["path"] for each in included + excluded}
    if len(paths) < len(included) + len(excluded):
        raise bad_request("The indexing policy names a path twice.")
    if not included and not any(each["path"] in _ROOTS for each in excluded):
        included.append({"path": "/*"})
    elif paths.isdisjoint(_ROOTS):
        raise bad_request(
            "The special mandatory indexing path '/' is not provided in any of the path type sets."
        )
    if _ETAG_PATH not in paths:
        excluded.append({"path": _ETAG_PATH})


def _composites(sent: dict[str, Any]) -> list[list[dict[str, str]]]:
    composites = [
        [_ordered(each) for each in as_list(index)] for index in as_list(sent.get("compositeIndexes") or [])
    ]
    if len(composites) > _MOST_COMPOSITES:
        raise bad_request(f"The indexing policy has more than {_MOST_COMPOSITES} composite indexes.")
    for index in composites:
        if not 2 <= len({each["path"] for each in index}) == len(index) <= _MOST_IN_COMPOSITE:
            raise bad_request(f"A composite index has 2 to {_MOST_IN_COMPOSITE} paths, each of them once.")
    return composites


def _ordered(each: Any) -> dict[str, str]:
    order = as_object(each).get("order", "ascending")
    if order not in ("ascending", "descending"):
        raise bad_request("The order of a composite index is 'ascending' or 'descending'.")
    return {"path": path_of(each.get("path")), "order": order}


def _spatial(sent: dict[str, Any]) -> list[dict[str, Any]]:
    indexes = []
    for each in as_list(sent.get("spatialIndexes") or []):
        types = as_list(as_object(each).get("types") or list(_SPATIAL_TYPES))
        if any(one not in _SPATIAL_TYPES for one in types):
            raise bad_request(f"The types of a spatial index are {', '.join(_SPATIAL_TYPES)}.")
        indexes.append({**each, "path": path_of(each.get("path")), "types": types})
    return indexes


def _full_text(indexes: list[Any], body: dict[str, Any]) -> list[Any]:
    policy = as_object(body.get("fullTextPolicy") or {})
    known = [as_object(each).get("path") for each in as_list(policy.get("fullTextPaths") or [])]
    for each in indexes:
        path = path_of(as_object(each).get("path"), "The Full Text Index path")
        if path not in known:
            raise bad_request(f"The Full Text Index path {path[:80]!r} is not in the Full Text Policy.")
    return indexes
