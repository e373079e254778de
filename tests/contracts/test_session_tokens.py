"""What a session knows, without a service: learning, merging, asking, and what it never does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from azure.cosmos import ContainerProxy
from azure.cosmos.exceptions import CosmosHttpResponseError
from hypothesis import given
from hypothesis import strategies as st

from azlatch import contracts
from azlatch.contracts import aio, session_errors, session_sdk
from azlatch.contracts.session import MOST_CONTAINERS, MOST_SCOPES, MOST_SENT, ContainerTokens, SessionTokens
from azlatch.contracts.session_errors import SessionDamaged, SessionError, SessionIncomplete
from azlatch.errors import LatchError, UsageError

LINK = "dbs/shop/colls/orders"


def tokens() -> SessionTokens:
    return SessionTokens(session_sdk.merge, session_sdk.overlap)


def point(key: str) -> str:
    """The scope of one logical partition."""
    edges = {"min": key, "max": key, "isMinInclusive": True, "isMaxInclusive": True}
    return session_sdk.scope_of({"Range": edges})


def span(low: str, high: str) -> str:
    """The scope of a physical partition."""
    edges = {"min": low, "max": high, "isMinInclusive": True, "isMaxInclusive": False}
    return session_sdk.scope_of({"Range": edges})


def test_a_read_carries_what_was_seen_of_its_own_range_alone() -> None:
    known = tokens()
    known.learn(LINK, "0:1#5#1=5", point("10"))
    known.learn(LINK, "1:1#7#1=7", point("30"))
    assert known.needed(LINK, point("10")) == "0:1#5#1=5"
    assert known.needed(LINK, point("30")) == "1:1#7#1=7"
    assert known.needed(LINK, point("20")) == ""
    assert known.needed(LINK, span("00", "18")) == "0:1#5#1=5"
    assert known.needed(LINK, None) == "0:1#5#1=5,1:1#7#1=7"
    assert known.needed("dbs/shop/colls/others", None) == ""


def test_what_was_seen_for_the_whole_container_goes_with_every_read() -> None:
    known = tokens()
    known.learn(LINK, "0:1#5,1:1#9", None)
    assert known.needed(LINK, point("10")) == "0:1#5,1:1#9"


def test_row_29_ranges_and_tokens_are_compared_by_the_functions_of_the_sdk() -> None:
    """Row 29: what a read carries is what `get_latest_session_token` makes of the same pairs."""
    pairs = [
        (span("00", "20"), "1:1#51#3=52"),
        (span("00", "20"), "1:1#55#3=50"),
        (span("20", "3F"), "2:1#7#3=7"),
    ]
    known = tokens()
    for scope, text in pairs:
        known.learn(LINK, text, scope)
    for target in (span("00", "20"), span("20", "3F"), span("00", "3F"), point("0A")):
        ours = [(json.loads(scope), text) for scope, text in pairs]
        theirs = ContainerProxy.get_latest_session_token(None, ours, json.loads(target))  # type: ignore[arg-type]
        assert sorted(known.needed(LINK, target).split(",")) == sorted(theirs.split(","))


def test_row_32_a_higher_version_wins_though_its_lsn_is_lower() -> None:
    """Row 32: false progress. After a failover the version is higher, and the LSN may be lower."""
    known = tokens()
    known.learn(LINK, "0:1#100#1=90#2=80", point("10"))
    known.learn(LINK, "0:2#60#1=55#2=50", point("10"))
    assert known.needed(LINK, point("10")).startswith("0:2#60#")
    known.learn(LINK, "0:1#120#1=90#2=80", point("10"))
    assert known.needed(LINK, point("10")).startswith("0:2#60#")


def test_tokens_that_the_sdk_cannot_merge_are_no_guess() -> None:
    """Of one version and two sets of regions the SDK makes an error; reads say so from then on."""
    known = tokens()
    known.learn(LINK, "0:1#5#1=5", point("10"))
    known.learn(LINK, "0:1#6#1=6#2=6", point("10"))
    with pytest.raises(SessionIncomplete, match="cannot merge") as caught:
        known.needed(LINK, point("10"))
    assert (caught.value.code, caught.value.who) == ("session-incomplete", "caller")
    known.forget(LINK)
    assert known.needed(LINK, point("10")) == ""
    with pytest.raises(CosmosHttpResponseError):
        session_sdk.merge("0:1#5#1=5", "0:1#6#1=6#2=6")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0:123",
        "a,b",
        "0",
        "0:1#",
        ":1#2",
        "0:1#2#",
        "0:1#2#3",
        "0:x#2",
        "0:1#2,",
        "0:1#2\r\nx: y",
        "0:1#2" * 5_000,
    ],
)
def test_row_30_what_is_no_token_is_refused_at_the_boundary(text: str) -> None:
    """Row 30: in place of an unclear 400 or 500 much later."""
    known = tokens()
    with pytest.raises(SessionDamaged) as caught:
        known.learn(LINK, text, None)
    assert (caught.value.code, caught.value.who) == ("session-damaged", "caller")
    assert len(str(caught.value)) < 200
    assert len(known) == 0


@given(st.text(max_size=80))
def test_no_text_is_taken_that_the_sdk_cannot_merge(text: str) -> None:
    """Whatever is accepted as a token, the SDK reads."""
    known = tokens()
    try:
        known.learn(LINK, text, None)
    except SessionDamaged:
        return
    for each in text.split(","):
        assert session_sdk.merge(each.strip(), each.strip())


def test_row_31_of_2000_ranges_a_read_carries_its_own() -> None:
    """Row 31: headers that are too large. One range's token goes with a read by key, and nobody sends all."""
    known = tokens()
    for number in range(2_000):
        known.learn(LINK, f"{number}:1#{number + 1_000_000}#1=999999#2=999999", point(f"{number * 8:04X}"))
    assert known.needed(LINK, point(f"{77 * 8:04X}")) == "77:1#1000077#1=999999#2=999999"
    with pytest.raises(SessionIncomplete, match=f"at most {MOST_SENT}: read by partition key"):
        known.needed(LINK, None)


def test_many_keys_of_one_partition_become_that_partition() -> None:
    known = tokens()
    for number in range(MOST_SCOPES + 1):
        known.learn(LINK, "0:1#5", point(f"{number:02X}"))
    (crowded,) = known.crowded(LINK)
    ranges = [json.loads(span("00", "20")), json.loads(span("20", "3F"))]
    inside = session_sdk.hull(crowded.scopes or (), ranges)
    assert inside == span("00", "20")
    known.widen(LINK, "0", inside)
    assert not known.crowded(LINK)
    assert known.needed(LINK, point("1F")) == "0:1#5"
    assert known.needed(LINK, point("21")) == ""


def test_what_is_in_no_one_partition_is_carried_everywhere() -> None:
    assert session_sdk.hull([point("10"), point("30")], [json.loads(span("00", "20"))]) is None
    known = tokens()
    known.learn(LINK, "0:1#5", point("10"))
    known.widen(LINK, "0", None)
    assert known.needed(LINK, point("30")) == "0:1#5"


def test_a_feed_range_that_the_sdk_cannot_read_counts_as_overlapping() -> None:
    """A future SDK may write feed ranges otherwise: then too much is carried, not too little."""
    assert session_sdk.overlap('{"Strange":1}', point("10"))
    assert session_sdk.overlap(point("10"), '{"Strange":1}')
    assert not session_sdk.overlap(point("10"), point("11"))


def test_a_container_that_was_made_again_is_another_one() -> None:
    known = tokens()
    known.learn(LINK, "0:1#500", None, rid="one")
    known.learn(LINK, "0:1#3", None, rid="other")
    with pytest.raises(SessionIncomplete, match="made again"):
        known.needed(LINK, None)


def test_what_had_no_room_is_not_taken_for_unseen() -> None:
    known = tokens()
    known.learn(LINK, "0:1#5", point("10"))
    known.absorb(LINK, ContainerTokens(left_out=2))
    assert known.left_out == 2
    assert known.needed(LINK, point("10")) == "0:1#5"
    for target in (point("20"), None):
        with pytest.raises(SessionIncomplete, match="2 session tokens"):
            known.needed(LINK, target)


def test_a_session_is_bounded() -> None:
    known = tokens()
    for number in range(MOST_CONTAINERS):
        known.learn(f"dbs/d/colls/{number}", "0:1#5", None)
    with pytest.raises(UsageError, match="at most 32 containers"):
        known.learn("dbs/d/colls/more", "0:1#5", None)


def test_errors_have_a_code_and_whose_job_they_are() -> None:
    """Each error of sessions has a code of its own, and a known `who`."""
    kinds = [
        kind
        for kind in vars(session_errors).values()
        if isinstance(kind, type) and issubclass(kind, SessionError)
    ]
    assert all(issubclass(kind, LatchError) for kind in kinds)
    assert len({kind.code for kind in kinds}) == len(kinds) == 10
    assert {kind.who for kind in kinds} == {"caller", "operator", "service"}
    assert contracts.BehindSession.kind == "behind_session"


def test_the_page_has_every_error_and_every_name() -> None:
    """docs/contracts/sessions.md names all that is public of sessions, and each error's code and who."""
    page = (Path(__file__).parents[2] / "docs/contracts/sessions.md").read_text(encoding="utf-8")
    names = [each for each, place in contracts._LATER.items() if ".session_" in place]
    assert [each for each in names if each not in page] == []
    kinds = [
        kind
        for kind in vars(session_errors).values()
        if isinstance(kind, type) and issubclass(kind, SessionError)
    ]
    assert [each.code for each in kinds if f"`{each.code}` | {each.who}" not in page] == []


def test_importing_loads_neither_the_sdk_nor_a_web_library() -> None:
    """Nothing of sessions loads azure, httpx or requests before it is used."""
    names = [each for each, place in contracts._LATER.items() if ".session_" in place]
    touch = f"[getattr(contracts, name) for name in {names!r}]"
    code = f"import sys; from azlatch import contracts; {touch}; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = {name.split(".")[0] for name in said.stdout.split()}
    assert loaded & {"azure", "httpx", "requests", "aiohttp", "starlette"} == set()


def test_both_kinds_of_client_have_one_context() -> None:
    """`aio` exports the same class: which client a container is of is seen when it is tracked."""
    assert aio.SessionContext is contracts.SessionContext
    assert set(aio.__all__) <= set(dir(aio))
