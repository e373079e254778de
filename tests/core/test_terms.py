"""Terms of a hold: each number checked, and against the others."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import azlatch
from azlatch import UsageError
from azlatch.core.advice import ttl_with_heartbeat, ttl_without_heartbeat
from azlatch.core.terms import Limits, margin_of, terms_of, timeout_of

LIMITS = Limits(0.5, 86_400)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"ttl": 0}, "ttl is 0"),
        ({"ttl": -1}, "ttl is -1"),
        ({"ttl": math.nan}, "ttl is nan"),
        ({"ttl": math.inf}, "ttl is inf"),
        ({"ttl": 10**400}, "finite"),
        ({"ttl": 86_401}, "0.5 to 86400"),
        ({"ttl": "30"}, "ttl is '30'"),
        ({"ttl": True}, "ttl is True"),
        ({"ttl": None}, "ttl is None"),
        ({"ttl": 30, "renew_every": 13.5}, r"renew_every is 13.5 s .* under 13.5 s.*ttl=30"),
        ({"ttl": 30, "renew_every": 30}, "renew_every is 30"),
        ({"ttl": 30, "renew_every": 0}, "renew_every is 0"),
        ({"ttl": 30, "renew_every": -1}, "renew_every is -1"),
        ({"ttl": 30, "max_hold": 0}, "max_hold is 0"),
        ({"ttl": 30, "max_hold": math.nan}, "max_hold is nan"),
    ],
)
def test_wrong_input_names_value_and_cure(values: dict[str, float], named: str) -> None:
    """Every value that cannot work is a UsageError, a ValueError too, that names it."""
    with pytest.raises(UsageError, match=named) as caught:
        azlatch.connect("memory:").acquire("a", **values)
    assert isinstance(caught.value, ValueError)
    assert caught.value.who == "caller"


@pytest.mark.parametrize("timeout", [-1, math.nan, "1", True])
def test_wrong_timeouts(timeout: object) -> None:
    """A timeout is None, 0 or seconds above 0."""
    with pytest.raises(UsageError, match="timeout"):
        azlatch.connect("memory:").acquire("a", timeout=timeout)


def test_infinite_patience() -> None:
    """An infinite timeout waits for ever, as None does."""
    assert timeout_of(math.inf) is None
    assert timeout_of(None) is None
    assert timeout_of(0) == 0


@given(st.floats(0.5, 86_400))
def test_defaults_fit(ttl: float) -> None:
    """The default renewal leaves time for a failed one to be repeated, and a call fits three times (T4)."""
    terms = terms_of(ttl=ttl, limits=LIMITS)
    assert terms.margin == max(0.1 * ttl, 0.2)
    assert 0 < terms.renew_every < terms.life / 2
    assert math.isclose(terms.call_limit * 3, terms.life)
    assert math.isclose(terms.deadline(100.0), 100.0 + ttl - terms.margin)


@given(st.floats(0, 3_600))
def test_advised_ttl_covers_what_was_measured(longest: float) -> None:
    """Without a heartbeat the advised ttl outlives the longest hold + 20 % by its margin."""
    ttl = ttl_without_heartbeat(longest, LIMITS)
    assert ttl - margin_of(ttl) >= longest * 1.2 - 1e-9


@given(st.floats(0, 100))
def test_advised_ttl_covers_three_renewals(slowest: float) -> None:
    """With a heartbeat it leaves room for three renewals as slow as the slowest."""
    ttl = ttl_with_heartbeat(slowest, LIMITS)
    assert ttl - margin_of(ttl) >= slowest * 3


@pytest.mark.parametrize(
    "url", ["", "redis://x", "sqlite:", "sqlite://", "sqlite:///", "sqlite:/x.db", "http://k:secret@h", 7]
)
def test_wrong_urls(url: object) -> None:
    """A URL that names no store is a UsageError, and what may be a secret in it is not repeated."""
    with pytest.raises(UsageError) as caught:
        azlatch.connect(url)
    assert "secret" not in str(caught.value)


def test_no_default_where_replicas_have_no_common_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a platform that scales out there is no default store."""
    monkeypatch.delenv("AZLATCH_URL", raising=False)
    monkeypatch.setenv("WEBSITE_SITE_NAME", "site")
    with pytest.raises(UsageError, match="App Service"):
        azlatch.connect()
    monkeypatch.setenv("AZLATCH_URL", "memory:")
    azlatch.connect()
