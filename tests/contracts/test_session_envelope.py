"""Envelopes: bounded, and what was not signed is never taken."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azlatch import contracts
from azlatch.contracts import session_envelope
from azlatch.contracts.session import ContainerTokens, RangeToken
from azlatch.contracts.session_envelope import MOST_BYTES, SessionKey, seal, unseal
from azlatch.errors import UsageError

OLD, NEW = SessionKey("2026-10", b"o" * 32), SessionKey("2026-12", b"n" * 32)
ACCOUNT, LINK, NOW = "contoso.documents.azure.com", "dbs/shop/colls/orders", 1_000_000.0
KINDS = (
    contracts.SessionDamaged, contracts.SessionForeign, contracts.SessionOversized, contracts.SessionKeyUnknown,
    contracts.SessionExpired,
)  # fmt: skip


def scope(number: int) -> str:
    edges = {"isMaxInclusive": True, "isMinInclusive": True, "max": f"{number:032X}", "min": f"{number:032X}"}
    return json.dumps({"Range": edges}, separators=(",", ":"), sort_keys=True)


def ranges(count: int, scopes: int = 1) -> dict[str, RangeToken]:
    return {
        str(n): RangeToken(f"{n}:1#{n + 10**6}#1=999999#2=999999", tuple(map(scope, range(n, n + scopes))), n)
        for n in range(count)
    }


def sealed(containers: dict[str, ContainerTokens] | None = None, *keys: SessionKey, **options: Any) -> Any:
    containers = containers or {LINK: ContainerTokens("rid", ranges(3))}
    return seal(ACCOUNT, containers, keys or (NEW, OLD), **{"now": NOW, "max_age_s": 60, **options})


def opened(text: str, *keys: SessionKey, account: str = ACCOUNT, **options: Any) -> dict[str, ContainerTokens]:
    return unseal(text, account, keys or (NEW, OLD), **{"now": NOW, **options})


def test_what_goes_in_comes_out() -> None:
    whole = ContainerTokens("rid", {**ranges(3), "7": RangeToken("7:2#1", None, 9)}, 0, None)
    found = opened(sealed({LINK: whole, "dbs/shop/colls/über": ContainerTokens(lost="it was lost")}).text)
    assert [(each.text, each.scopes) for each in found[LINK].ranges.values()] == [
        (each.text, each.scopes) for each in whole.ranges.values()
    ]
    assert (found[LINK].rid, found[LINK].left_out) == ("rid", 0)
    assert found["dbs/shop/colls/über"].lost == "it was lost"


def test_the_first_key_signs_and_all_are_accepted() -> None:
    """Rotation: the new key is known everywhere before it signs, and the old one stays for a while."""
    before = sealed(None, OLD, NEW).text
    after = sealed(None, NEW, OLD).text
    assert before.split(".")[1] == "2026-10"
    assert after.split(".")[1] == "2026-12"
    assert opened(before) == opened(after)
    with pytest.raises(contracts.SessionKeyUnknown) as caught:
        opened(before, NEW)
    assert (caught.value.code, caught.value.who) == ("session-key-unknown", "operator")


def test_refusals_each_have_a_name_and_a_who() -> None:
    """Damaged, foreign, oversized, unknown key, expired."""
    text = sealed().text
    head, payload, tag = text.rsplit(".", 2)
    other = SessionKey("2026-12", b"x" * 32)
    cases: list[tuple[Any, type[contracts.SessionRefused]]] = [
        (lambda: opened(""), contracts.SessionDamaged),
        (lambda: opened("v2" + text[2:]), contracts.SessionDamaged),
        (lambda: opened(f"{head}.{payload}A.{tag}"), contracts.SessionDamaged),
        (lambda: opened(text, other), contracts.SessionDamaged),
        (lambda: opened(text.replace("2026-12", "2026-10")), contracts.SessionDamaged),
        (lambda: opened(text, account="fabrikam.documents.azure.com"), contracts.SessionForeign),
        (lambda: opened(text, containers=["dbs/shop/colls/others"]), contracts.SessionForeign),
        (lambda: opened(text, most_bytes=len(text) - 1), contracts.SessionOversized),
        (lambda: opened(text.replace("2026-12", "2027-01")), contracts.SessionKeyUnknown),
        (lambda: opened(text, now=NOW + 61), contracts.SessionExpired),
    ]
    for case, kind in cases:
        with pytest.raises(contracts.SessionRefused) as caught:
            case()
        assert type(caught.value) is kind
        assert caught.value.who in ("caller", "operator")
        assert payload[:20] not in str(caught.value)
    assert opened(text, containers=[LINK], now=NOW + 60)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_changed_envelope_never_verifies(data: st.DataObject) -> None:
    """Whatever is changed, inserted, taken out or exchanged: a named refusal, and nothing else."""
    text = sealed().text
    at = data.draw(st.integers(0, len(text)))
    to = data.draw(st.integers(at, min(len(text), at + 4)))
    changed = text[:at] + data.draw(st.text(max_size=4)) + text[to:]
    if changed == text:
        return
    with pytest.raises(KINDS):
        opened(changed)


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(st.text(max_size=300), st.from_regex(r"v1\.2026-1[02]\.[A-Za-z0-9_-]{1,80}\.[A-Za-z0-9_-]{43}"))
)
def test_a_forged_envelope_never_verifies(text: str) -> None:
    with pytest.raises(KINDS):
        opened(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just("0:1#5"),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("acx") | st.text(), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=400, deadline=None)
@given(JSON, JSON, JSON)
def test_what_a_holder_of_the_key_signs_is_read_or_refused(account: Any, containers: Any, expires: Any) -> None:
    """Even a sender with a bug and the right key causes nothing but a named refusal."""
    almost = {"a": ACCOUNT, "c": [[LINK, None, 0, None, containers]], "x": 1e9}
    for payload in ({"a": account, "c": containers, "x": expires}, containers, almost):
        text = session_envelope._sign(json.dumps(payload).encode(), NEW)
        try:
            found = opened(text)
        except KINDS:
            continue
        assert all(isinstance(each, ContainerTokens) for each in found.values())


def test_deep_nesting_is_a_refusal() -> None:
    text = session_envelope._sign(b"[" * 100_000, NEW)
    with pytest.raises(contracts.SessionDamaged):
        opened(text, most_bytes=1_000_000)


@pytest.mark.parametrize("most", [512, MOST_BYTES, 16_000, 60_000])
@pytest.mark.parametrize("scopes", [1, 8])
def test_row_31_an_envelope_of_2000_ranges_keeps_its_limit(most: int, scopes: int) -> None:
    """Row 31: the newest have room, and how many had none is said."""
    made = sealed({LINK: ContainerTokens("rid", ranges(2_000, scopes))}, most_bytes=most)
    assert len(made.text) <= most
    found = opened(made.text, most_bytes=most)[LINK]
    assert len(found.ranges) + made.left_out == 2_000
    assert found.left_out == made.left_out > 0
    newest = [str(n) for n in range(made.left_out, 2_000)]
    assert list(found.ranges) == newest
    # There was no room for one more.
    assert made.text and (most - len(made.text)) < 400 * scopes


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.text(min_size=1, max_size=60), st.integers(0, 60)), max_size=12, unique_by=lambda x: x[0]
    )
)
def test_an_envelope_keeps_its_limit_or_says_that_it_cannot(shape: list[tuple[str, int]]) -> None:
    containers = {link: ContainerTokens(None, ranges(count)) for link, count in shape}
    try:
        made = seal(ACCOUNT, containers, [NEW], now=NOW, max_age_s=60, most_bytes=1_024)
    except (contracts.SessionOversized, UnicodeEncodeError):
        return
    assert len(made.text) <= 1_024
    found = opened(made.text)
    assert found.keys() == containers.keys()
    assert sum(len(each.ranges) for each in found.values()) + made.left_out == sum(count for _, count in shape)


def test_what_was_left_out_before_stays_left_out() -> None:
    made = sealed({LINK: ContainerTokens("rid", ranges(2), left_out=5)})
    assert made.left_out == 5
    assert opened(made.text)[LINK].left_out == 5


def test_no_room_for_the_names() -> None:
    many = {f"dbs/{'d' * 200}/colls/{n}": ContainerTokens() for n in range(30)}
    with pytest.raises(contracts.SessionOversized, match="without any token"):
        sealed(many)


def test_the_payload_has_no_secret() -> None:
    """The key is in neither the text nor the repr."""
    made = sealed()
    body = made.text.split(".")[2]
    plain = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
    assert b"nnnn" not in plain
    assert "nnnn" not in repr(NEW) + made.text


@pytest.mark.parametrize(
    "bad", [("", b"x" * 32), ("a.b", b"x" * 32), ("a" * 33, b"x" * 32), ("a", b"x" * 15), ("a", "x" * 32)]
)
def test_keys_that_cannot_be_used(bad: tuple[str, Any]) -> None:
    with pytest.raises(UsageError):
        SessionKey(*bad)


def test_an_edge_without_keys_is_refused() -> None:
    for keys in ([], [NEW, SessionKey("2026-12", b"z" * 32)], ["secret"]):
        with pytest.raises(UsageError):
            contracts.SessionEdge(keys, account=ACCOUNT)  # type: ignore[arg-type]
    for options in ({"account": ""}, {"max_age_s": 0}, {"most_bytes": 100}):
        with pytest.raises(UsageError):
            contracts.SessionEdge([NEW], **{"account": ACCOUNT, **options})  # type: ignore[arg-type]
