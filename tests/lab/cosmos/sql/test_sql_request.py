"""The body of a request: what is a query, what is none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.sql import execute, request_of
from azlatch.lab.cosmos.sql.values import UNDEFINED

ITEMS = [{"id": "1", "a": 2}, {"id": "2", "a": 1}, {"id": "3"}]


def test_request_to_results() -> None:
    """Parameters, a filter and an order work together."""
    body = {
        "query": "SELECT VALUE c.id FROM c WHERE c.a >= @a ORDER BY c.a",
        "parameters": [{"name": "@a", "value": 1}],
    }
    query, parameters = request_of(json.dumps(body).encode())
    assert list(execute(query, parameters, ITEMS)) == ["2", "1"]


@pytest.mark.parametrize("parameters", ["", ', "parameters": null', ', "parameters": []'])
def test_parameters_are_optional(parameters: str) -> None:
    """No parameters can be said in three ways."""
    assert request_of(b'{"query": "SELECT 1"' + parameters.encode() + b"}")[1] == {}


def test_parameter_without_value_is_undefined() -> None:
    """It is there, and equal to nothing."""
    query, parameters = request_of(b'{"query": "SELECT VALUE @x ?? 5", "parameters": [{"name": "@x"}]}')
    assert parameters == {"@x": UNDEFINED}
    assert list(execute(query, parameters, [])) == [5]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"query": 1}',
        b'{"query": "SELECT 1", "parameters": {}}',
        b'{"query": "SELECT 1", "parameters": [1]}',
        b'{"query": "SELECT 1", "parameters": [{"name": "x", "value": 1}]}',
        b'{"query": "SELECT 1", "parameters": [{"value": 1}]}',
        b'{"query": "SELEC 1"}',
        b'{"query": "SELECT \xff"}',
        b"[" * 5000,
    ],
)
def test_malformed_body_is_refused(body: bytes) -> None:
    """400 for whatever is no query."""
    with pytest.raises(ServiceError) as caught:
        request_of(body)
    assert caught.value.status == 400


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_any_bytes_are_answered(body: bytes) -> None:
    """Any bytes are a query, or get 400."""
    try:
        request_of(body)
    except ServiceError as error:
        assert error.status == 400
