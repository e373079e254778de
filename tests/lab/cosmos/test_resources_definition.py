"""Definitions of containers: the defaults that the service gives back, and what it refuses."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azlatch.lab.cosmos.container_definition import check_replacement, container_definition_of
from azlatch.lab.cosmos.errors import ServiceError

KEY = {"paths": ["/pk"], "kind": "Hash", "version": 2}
DEFAULT_POLICY = {
    "indexingMode": "consistent",
    "automatic": True,
    "includedPaths": [{"path": "/*"}],
    "excludedPaths": [{"path": '/"_etag"/?'}],
}
EMBEDDING = {"path": "/v", "dataType": "float32", "dimensions": 256, "distanceFunction": "cosine"}
SOURCE = {
    "sourcePaths": ["/title"],
    "deploymentName": "d",
    "modelName": "m",
    "endpoint": "https://example.com",
    "authType": "Entra",
}


def definition(**fields: Any) -> dict[str, Any]:
    return container_definition_of({"id": "c", "partitionKey": KEY, **fields})


def indexes(**fields: Any) -> Any:
    return definition(indexingPolicy=fields)["indexingPolicy"]


def vectors(index: Any = None, **changes: Any) -> dict[str, Any]:
    policy: dict[str, Any] = {"vectorEmbeddingPolicy": {"vectorEmbeddings": [{**EMBEDDING, **changes}]}}
    if index is not None:
        policy["indexingPolicy"] = {"vectorIndexes": [index]}
    return policy


def refused(match: str = ".", status: int = 400, /, **fields: Any) -> None:
    with pytest.raises(ServiceError, match=match) as caught:
        definition(**fields)
    assert caught.value.status == status


def test_a_container_has_the_services_defaults() -> None:
    """What nobody sent and the service gives back."""
    assert definition() == {
        "indexingPolicy": DEFAULT_POLICY,
        "partitionKey": KEY,
        "conflictResolutionPolicy": {
            "mode": "LastWriterWins",
            "conflictResolutionPath": "/_ts",
            "conflictResolutionProcedure": "",
        },
        "geospatialConfig": {"type": "Geography"},
    }


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"indexingMode": "Consistent", "automatic": True},
        {"includedPaths": [{"path": "/*"}]},
        {
            "includedPaths": [
                {"path": "/*", "indexes": [{"kind": "Hash", "dataType": "String", "precision": 3}]}
            ]
        },
    ],
)
def test_an_indexing_policy_is_completed(sent: dict[str, Any]) -> None:
    """Kinds and precisions of the first index version are accepted, and not given back."""
    assert indexes(**sent) == DEFAULT_POLICY


def test_an_indexing_policy_keeps_what_was_sent() -> None:
    """Paths, composite and spatial indexes; excluding all is possible, and so is no index."""
    sent = {
        "includedPaths": [{"path": "/a/?"}],
        "excludedPaths": [{"path": "/*"}, {"path": '/"_etag"/?'}],
        "compositeIndexes": [[{"path": "/a", "order": "ascending"}, {"path": "/b", "order": "descending"}]],
        "spatialIndexes": [{"path": "/p/*", "types": ["Point", "Polygon"]}],
    }
    assert indexes(**sent) == {"indexingMode": "consistent", "automatic": True, **sent}
    assert indexes(excludedPaths=[{"path": "/*"}])["includedPaths"] == []
    assert indexes(indexingMode="none") == {
        "indexingMode": "none",
        "automatic": False,
        "includedPaths": [],
        "excludedPaths": [],
    }


@pytest.mark.parametrize(
    "policy",
    [
        {"indexingMode": "lazy"},
        {"indexingMode": "none", "automatic": True},
        {"automatic": "yes"},
        {"includedPaths": [{"path": "/a/?"}]},
        {"includedPaths": [{"path": "a"}, {"path": "/*"}]},
        {"includedPaths": [{"path": 5}]},
        {"includedPaths": ["/*"]},
        {"includedPaths": {"path": "/*"}},
        {"includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/*"}]},
        {"compositeIndexes": [[{"path": "/a"}]]},
        {"compositeIndexes": [[{"path": "/a"}, {"path": "/a"}]]},
        {"compositeIndexes": [[{"path": "/a", "order": "up"}, {"path": "/b"}]]},
        {"compositeIndexes": [{"path": "/a"}]},
        {"compositeIndexes": [[{"path": f"/{at}"}, {"path": "/b"}] for at in range(101)]},
        {"spatialIndexes": [{"path": "/a/*", "types": ["Circle"]}]},
        {"vectorIndexes": "flat"},
        {"fullTextIndexes": [{"path": "/a"}]},
        {"fullTextIndexes": [{"path": "a"}]},
        {"fullTextIndexes": [{"not_path": "/a"}]},
        [],
        "consistent",
    ],
)
def test_an_indexing_policy_that_is_none_is_refused(policy: Any) -> None:
    """400, never a wrong default; an empty list is as good as none."""
    if policy == []:
        assert definition(indexingPolicy=policy)["indexingPolicy"] == DEFAULT_POLICY
    else:
        refused(indexingPolicy=policy)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("defaultTtl", -1),
        ("defaultTtl", 2_147_483_647),
        ("uniqueKeyPolicy", {"uniqueKeys": [{"paths": ["/a", "/b/c"]}]}),
        (
            "conflictResolutionPolicy",
            {
                "mode": "Custom",
                "conflictResolutionPath": "",
                "conflictResolutionProcedure": "dbs/d/colls/c/sprocs/s",
            },
        ),
        ("computedProperties", [{"name": "low", "query": "SELECT VALUE LOWER(c.a) FROM c"}]),
        ("vectorEmbeddingPolicy", {"vectorEmbeddings": [EMBEDDING, {**EMBEDDING, "path": "/w"}]}),
        ("vectorEmbeddingPolicy", {"vectorEmbeddings": [{**EMBEDDING, "embeddingSource": SOURCE}]}),
        ("fullTextPolicy", {"defaultLanguage": "en-US"}),
        (
            "fullTextPolicy",
            {"defaultLanguage": "pt-BR", "fullTextPaths": [{"path": "/a", "language": "en-US"}]},
        ),
        ("geospatialConfig", {"type": "Geometry"}),
        ("analyticalStorageTtl", -1),
        ("changeFeedPolicy", {"retentionDuration": 10}),
        ("materializedViewDefinition", {"sourceCollectionId": "c", "definition": "SELECT c.a FROM c"}),
        ("globalSecondaryIndexDefinition", {"sourceCollectionId": "c", "definition": "SELECT c.a FROM c"}),
    ],
)
def test_what_is_sent_is_given_back(field: str, value: Any) -> None:
    """As it was sent, and null is as good as not sent."""
    assert definition(**{field: copy.deepcopy(value)})[field] == value
    assert definition(**{field: None}) == definition()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("defaultTtl", 0),
        ("defaultTtl", -10),
        ("defaultTtl", 2_147_483_648),
        ("defaultTtl", 1.5),
        ("defaultTtl", float("nan")),
        ("defaultTtl", float("inf")),
        ("defaultTtl", True),
        ("defaultTtl", "60"),
        ("uniqueKeyPolicy", {"uniqueKeys": [{"paths": []}]}),
        ("uniqueKeyPolicy", {"uniqueKeys": [{"paths": ["/a", "/a"]}]}),
        ("uniqueKeyPolicy", {"uniqueKeys": [{"paths": ["a"]}]}),
        ("uniqueKeyPolicy", {"uniqueKeys": [{"paths": [f"/{at}"]} for at in range(11)]}),
        ("uniqueKeyPolicy", {"uniqueKeys": [{"paths": [f"/{at}" for at in range(17)]}]}),
        ("uniqueKeyPolicy", []),
        ("conflictResolutionPolicy", {"mode": "FirstWriterWins"}),
        ("conflictResolutionPolicy", {"mode": "Custom", "conflictResolutionPath": "/a"}),
        ("computedProperties", {"name": "low", "query": "SELECT VALUE 1"}),
        ("computedProperties", [{"name": "id", "query": "SELECT VALUE 1"}]),
        ("computedProperties", [{"name": "a", "query": "SELECT 1"}]),
        ("computedProperties", [{"name": "a", "query": "SELECT VALUE 1"}] * 2),
        ("computedProperties", [{"name": "a"}]),
        ("fullTextPolicy", {"defaultLanguage": "spa-SPA"}),
        ("fullTextPolicy", {"fullTextPaths": [{"path": "/a", "language": "spa-SPA"}]}),
        ("fullTextPolicy", {"fullTextPaths": [{"path": "a"}]}),
        ("fullTextPolicy", {"fullTextPaths": [{"path": "/a", "language": {"x": 1}}]}),
        ("geospatialConfig", {"type": "Flat"}),
        ("analyticalStorageTtl", 0),
        ("changeFeedPolicy", {"retentionDuration": -1}),
        ("materializedViewDefinition", {"definition": "SELECT c.a FROM c"}),
        ("materializedViewDefinition", {"sourceCollectionId": "c"}),
        ("vectorEmbeddingPolicy", {"vectorEmbeddings": [EMBEDDING, EMBEDDING]}),
        ("vectorEmbeddingPolicy", {"vectorEmbeddings": [{**EMBEDDING, "path": "v"}]}),
        ("vectorEmbeddingPolicy", {"vectorEmbeddings": [{**EMBEDDING, "dimensions": "many"}]}),
        ("vectorEmbeddingPolicy", {"vectorEmbeddings": [{"path": "/v"}]}),
        ("vectorEmbeddingPolicy", {}),
        ("partitionKey", None),
        ("partitionKey", {}),
        ("partitionKey", {"paths": ["pk"]}),
        ("partitionKey", {"paths": ["/a", "/b"], "kind": "Hash"}),
        ("partitionKey", {"paths": ["/a", "/b", "/c", "/d"], "kind": "MultiHash", "version": 2}),
        ("partitionKey", "/pk"),
    ],
)
def test_what_the_service_refuses_is_refused(field: str, value: Any) -> None:
    """400 for values, counts and types out of their range."""
    refused(**{field: value})


@pytest.mark.parametrize(
    ("index", "match"),
    [
        ({"path": "/other", "type": "flat"}, "other not matching in Embedding's path"),
        ({"path": "/v", "type": "notFlat"}, "Index Type::notFlat is invalid"),
        (
            {"path": "/v", "type": "quantizedFlat", "quantizationByteSize": 0},
            "QuantizationByteSize value :: 0 is out of range. The allowed range is between 1 and 256.",
        ),
        (
            {"path": "/v", "type": "diskANN", "indexingSearchListSize": 5},
            "IndexingSearchListSize value :: 5 is out of range. The allowed range is between 25 and 500.",
        ),
        ({"path": "/v", "type": "diskANN", "vectorIndexShardKey": ["city"]}, "invalid Shard Path: city."),
        ({"path": "/v", "type": "diskANN", "vectorIndexShardKey": ["/a", "/b"]}, "2 exceeds the maximum: 1."),
        (
            {"path": "/v", "type": "diskANN", "vectorIndexShardKey": "/a"},
            "One of the specified inputs is invalid",
        ),
    ],
)
def test_a_vector_index_that_is_none_is_refused(index: dict[str, Any], match: str) -> None:
    """In the words that the SDK's own tests look for."""
    refused(match, **vectors(index))


def test_the_largest_quantization_is_512_bytes_or_one_for_each_dimension() -> None:
    """Whichever is less."""
    index = {"path": "/v", "type": "quantizedFlat", "quantizationByteSize": 512}
    assert definition(**vectors(index, dimensions=550))["indexingPolicy"]["vectorIndexes"] == [index]
    refused("value :: 513 is out of range", **vectors({**index, "quantizationByteSize": 513}, dimensions=550))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"dataType": "float33"}, "has an invalid DataType"),
        ({"dimensions": 8000}, "has Dimensions:8000 which is more than the maximum supported value"),
        ({"dimensions": -1}, "has Dimensions:-1"),
        ({"distanceFunction": "handMeasured"}, "has an invalid DistanceFunction:handMeasured"),
        ({"embeddingSource": {**SOURCE, "authType": "Key"}}, "The auth type provided in the embedding source"),
        ({"embeddingSource": {**SOURCE, "sourcePaths": []}}, "sourcePaths"),
        ({"embeddingSource": {}}, "sourcePaths"),
    ],
)
def test_a_vector_embedding_that_is_none_is_refused(changes: dict[str, Any], match: str) -> None:
    """In the words that the SDK's own tests look for."""
    refused(match, **vectors(**changes))


def test_a_replacement_may_change_what_can_change() -> None:
    """Indexes, ttl, computed properties; a new vector beside the old one."""
    old = definition(**vectors({"path": "/v", "type": "flat"}))
    more = vectors({"path": "/v", "type": "flat"})
    more["vectorEmbeddingPolicy"]["vectorEmbeddings"].append({**EMBEDDING, "path": "/w"})
    check_replacement(old, definition(defaultTtl=5, **more))


@pytest.mark.parametrize(
    ("old", "new", "status", "match"),
    [
        ({}, {"partitionKey": {**KEY, "paths": ["/other"]}}, 400, "partition key cannot be changed"),
        ({}, {"partitionKey": {**KEY, "version": 1}}, 400, "partition key cannot be changed"),
        ({"uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/a"]}]}}, {}, 403, "unique index cannot be modified"),
        ({}, {"uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/a"]}]}}, 403, "unique index cannot be modified"),
        ({"conflictResolutionPolicy": {"mode": "Custom"}}, {}, 400, "conflict resolution policy"),
        (vectors(), {}, 400, "existing embedding policy cannot be modified in Collection Replace"),
        (vectors(), vectors(dimensions=384), 400, "existing embedding policy cannot be modified"),
        (
            vectors({"path": "/v", "type": "flat"}),
            vectors({"path": "/v", "type": "quantizedFlat"}),
            400,
            "existing vector indexing policy cannot be modified in Collection Replace",
        ),
    ],
)
def test_a_replacement_cannot_change_the_rest(old: Any, new: Any, status: int, match: str) -> None:
    """Partition key, unique keys, conflict resolution, vectors; left away counts as changed."""
    with pytest.raises(ServiceError, match=match) as caught:
        check_replacement(definition(**old), definition(**new))
    assert caught.value.status == status


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["/a", "flat"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["path", "paths", "types", "uniqueKeys", "vectorEmbeddings", "mode", "name", "query"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
FIELDS = [
    "indexingPolicy",
    "partitionKey",
    "defaultTtl",
    "uniqueKeyPolicy",
    "conflictResolutionPolicy",
    "fullTextPolicy",
    "computedProperties",
    "vectorEmbeddingPolicy",
    "geospatialConfig",
    "changeFeedPolicy",
    "analyticalStorageTtl",
    "materializedViewDefinition",
]


@given(st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=4), st.sampled_from(FIELDS), json_values)
def test_no_definition_is_anything_but_taken_or_refused(body: Any, name: str, value: Any) -> None:
    """Whatever is sent, the answer is a definition or a status of the service."""
    for each in ({**body, name: value}, {"partitionKey": KEY, name: value}, {"indexingPolicy": {name: value}}):
        try:
            taken = container_definition_of({"partitionKey": KEY, **each})
        except ServiceError as error:
            assert error.status == 400
        else:
            check_replacement(taken, taken)
