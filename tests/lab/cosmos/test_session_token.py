"""Session tokens: what is read is what the SDK reads, and what is written it can read."""

from __future__ import annotations

import pytest
from azure.cosmos._session import SessionContainer
from azure.cosmos._vector_session_token import VectorSessionToken
from azure.cosmos.exceptions import CosmosHttpResponseError
from hypothesis import given
from hypothesis import strategies as st

from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.session_token import NO_VERSION, SessionToken, format_header, parse_header

lsns = st.integers(-1, 2**60)
tokens = st.builds(
    SessionToken,
    st.sampled_from(["0", "1", "27"]),
    st.integers(-1, 5),
    lsns,
    st.dictionaries(st.integers(0, 4), lsns, max_size=3),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0:1#11#1=11", SessionToken("0", 1, 11, {1: 11})),
        ("3:2#7#1=7#4=-1", SessionToken("3", 2, 7, {1: 7, 4: -1})),
        ("0:-1#12", SessionToken("0", NO_VERSION, 12)),
        ("0:12", SessionToken("0", NO_VERSION, 12)),
        (" 0:1#2 ", SessionToken("0", 1, 2)),
    ],
)
def test_forms(text: str, expected: SessionToken) -> None:
    """The present one and the older ones."""
    assert expected == SessionToken.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "0",
        ":",
        "0:",
        ":1#2",
        "0:x",
        "0:1#",
        "0:1#x",
        "0:#1",
        "0:1#2#",
        "0:1#2#3",
        "0:1#2#1=",
        "0:1#2#=3",
        "0:1#2#1=2=3",
        "0:1#2#1=2#1=3",
        "0:1#2#-1=3",
        "0:1.5#2",
        "0:1#" + "9" * 30,
        "é:1#2",
        "0:1#٣",
        "a b:1#2",
        "0:1:2",
        "0:1#2#" + "#".join(f"{each}=1" for each in range(100)),
        "x" * 17 + ":1#2",
        "0:1#2\n3",
    ],
)
def test_what_is_no_token(text: str) -> None:
    """400, and the text is not repeated at length."""
    with pytest.raises(ServiceError) as refused:
        SessionToken.parse(text)
    assert refused.value.status == 400
    assert "session token" in refused.value.message
    assert len(refused.value.message) < 200


@given(tokens)
def test_what_is_written_is_read(token: SessionToken) -> None:
    """By this module, and by the SDK with the same numbers."""
    assert SessionToken.parse(str(token)) == token
    sdk = VectorSessionToken.create(str(token).partition(":")[2])
    assert sdk is not None
    assert (sdk.version, sdk.global_lsn, sdk.local_lsn_by_region) == (
        token.version,
        token.global_lsn,
        token.regions,
    )


@given(tokens, tokens)
def test_merge_equals_the_sdk(one: SessionToken, other: SessionToken) -> None:
    """Where it merges; where it raises, the tokens are refused."""
    first = VectorSessionToken.create(str(one).partition(":")[2])
    second = VectorSessionToken.create(str(other).partition(":")[2])
    assert first is not None and second is not None
    try:
        expected = f"{one.range_id}:{first.merge(second).session_token}"
    except CosmosHttpResponseError:
        with pytest.raises(ServiceError):
            one.merge(other)
        return
    assert SessionToken.parse(expected) == one.merge(other)


def test_a_higher_version_wins_with_a_lower_lsn() -> None:
    """LSNs of different versions do not compare: the false progress of SDK pull request 42393."""
    old, new = SessionToken("0", 1, 500, {1: 500, 2: 400}), SessionToken("0", 2, 20, {1: 20})
    assert old.merge(new) == new.merge(old) == SessionToken("0", 2, 20, {1: 500})


def test_a_compound_header() -> None:
    """By range, and back; the SDK takes it apart in the same way."""
    text = "0:1#11#1=11,1:1#5#1=5,7:-1#3"
    parsed = parse_header(text)
    assert list(parsed) == ["0", "1", "7"]
    assert format_header(parsed) == text
    sdk = SessionContainer.parse_session_token({"x-ms-session-token": text})
    assert list(parsed) == list(sdk)


def test_no_token() -> None:
    """An empty header has none."""
    assert parse_header("") == parse_header("  ") == {}


def test_the_same_range_twice() -> None:
    """Counts as both together."""
    assert parse_header("0:1#5#1=5,0:1#9#1=9") == {"0": SessionToken("0", 1, 9, {1: 9})}


@pytest.mark.parametrize(
    "text",
    [
        ",",
        "0:1#2,",
        "0:1#2,,1:1#2",
        "0:1#2;1:1#2",
        ",".join(["0:1#2"] * 3000),
        "0:" + "1" * 70000,
        "0:1#5#1=5,0:1#5#2=5",
    ],
)
def test_refused_headers(text: str) -> None:
    """400: one bad token, too many, too long, or two that contradict each other."""
    with pytest.raises(ServiceError) as refused:
        parse_header(text)
    assert refused.value.status == 400
