"""The vector embeddings of a container and the indexes on them: checked as the service checks them.

The wording is what the SDK's own tests look for (test_vector_policy.py).
"""

from __future__ import annotations

from typing import Any

from azlatch.lab.cosmos.errors import bad_request
from azlatch.lab.cosmos.field import as_int, as_list, as_object, as_text

_DATA_TYPES = ("float32", "float16", "int8", "uint8")
_DISTANCES = ("cosine", "dotproduct", "euclidean")
_INDEX_TYPES = ("flat", "quantizedflat", "diskann")
_AUTH_TYPES = ("apikey", "entra")
_MOST_DIMENSIONS = 4_096
_MOST_QUANTIZED_BYTES = 512
_SEARCH_LIST = (25, 500)
_MOST_SHARD_PATHS = 1


def check_embeddings(policy: Any) -> dict[str, Any]:
    """The policy as it was sent.

    Raises:
        ServiceError: 400 for one that the service refuses.
    """
    seen = set()
    for each in as_list(as_object(policy).get("vectorEmbeddings")):
        path = as_text(as_object(each).get("path"))
        if not path.startswith("/"):
            raise bad_request(f"The Vector Embedding Policy has an invalid Path:{path[:80]}.")
        if path in seen:
            raise bad_request(f"The Vector Embedding Policy has a duplicate Path:{path[:80]}.")
        seen.add(path)
        _check_embedding(each)
    result: dict[str, Any] = policy
    return result


def check_indexes(indexes: list[Any], body: dict[str, Any]) -> list[Any]:
    """The vector indexes as they were sent, each on a path that the embedding policy in the definition has.

    Raises:
        ServiceError: 400 for one that the service refuses.
    """
    policy = as_object(body.get("vectorEmbeddingPolicy") or {})
    embeddings = {as_object(each).get("path"): each for each in as_list(policy.get("vectorEmbeddings") or [])}
    for each in indexes:
        path = as_text(as_object(each).get("path"))
        if path not in embeddings:
            raise bad_request(
                f"The Vector Indexing Policy's path::{path[:80]} not matching in Embedding's path."
            )
        kind = as_text(each.get("type"))
        if kind.lower() not in _INDEX_TYPES:
            raise bad_request(f"The Vector Indexing Policy's Index Type::{kind[:40]} is invalid.")
        _check_sizes(each, as_int(embeddings[path].get("dimensions")))
        _check_shards(each)
    return indexes


def check_unchanged(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Refuses a replacement that changes or drops an embedding or a vector index; adding is possible."""
    before = old.get("vectorEmbeddingPolicy", {}).get("vectorEmbeddings", [])
    after = new.get("vectorEmbeddingPolicy", {}).get("vectorEmbeddings", [])
    if any(each not in after for each in before):
        raise bad_request("Paths in existing embedding policy cannot be modified in Collection Replace.")
    before = old.get("indexingPolicy", {}).get("vectorIndexes", [])
    after = new.get("indexingPolicy", {}).get("vectorIndexes", [])
    if any(each not in after for each in before):
        raise bad_request("Paths in existing vector indexing policy cannot be modified in Collection Replace.")


def _check_embedding(each: dict[str, Any]) -> None:
    kind = as_text(each.get("dataType"))
    if kind not in _DATA_TYPES:
        raise bad_request(f"The Vector Embedding Policy has an invalid DataType:{kind[:40]}.")
    dimensions = as_int(each.get("dimensions"))
    if dimensions > _MOST_DIMENSIONS:
        raise bad_request(
            f"The Vector Embedding Policy has Dimensions:{dimensions} which is more than the maximum"
            f" supported value {_MOST_DIMENSIONS}."
        )
    if dimensions < 1:
        raise bad_request(f"The Vector Embedding Policy has Dimensions:{dimensions} which is less than 1.")
    distance = as_text(each.get("distanceFunction"))
    if distance.lower() not in _DISTANCES:
        raise bad_request(f"The Vector Embedding Policy has an invalid DistanceFunction:{distance[:40]}.")
    if "embeddingSource" in each:
        _check_source(as_object(each["embeddingSource"]))


def _check_source(source: dict[str, Any]) -> None:
    for name in ("sourcePaths", "endpoint", "deploymentName"):
        if not source.get(name):
            raise bad_request(f"The embedding source of vector policy lacks a required field: {name}.")
    if str(source.get("authType")).lower() not in _AUTH_TYPES:
        raise bad_request("The auth type provided in the embedding source of vector policy is invalid.")


def _check_sizes(index: dict[str, Any], dimensions: int) -> None:
    limits = {
        "quantizationByteSize": (1, min(_MOST_QUANTIZED_BYTES, dimensions)),
        "indexingSearchListSize": _SEARCH_LIST,
    }
    for name, (least, most) in limits.items():
        if name in index and not least <= as_int(index[name]) <= most:
            raise bad_request(
                f"The Vector Indexing Policy parameter {name[0].upper()}{name[1:]} value :: {index[name]} is"
                f" out of range. The allowed range is between {least} and {most}."
            )


def _check_shards(index: dict[str, Any]) -> None:
    shards = [as_text(each) for each in as_list(index.get("vectorIndexShardKey") or [])]
    for each in shards:
        if not each.startswith("/"):
            raise bad_request(f"The Vector Indexing Policy has an invalid Shard Path: {each[:80]}.")
    if len(shards) > _MOST_SHARD_PATHS:
        raise bad_request(
            f"The number of shard paths defined in the Vector Indexing Policy: {len(shards)} exceeds the"
            f" maximum: {_MOST_SHARD_PATHS}."
        )
