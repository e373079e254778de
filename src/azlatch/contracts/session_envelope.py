"""A session as one line of text that can go through other people's hands: bounded, signed, and soon worthless.

`v1.KEY-ID.PAYLOAD.TAG`: the payload is JSON in URL-safe Base64, with the account, the containers, their tokens
and the time until which it is taken. The tag is HMAC-SHA256 over all that precedes it. It is not encrypted:
who has it can read names of containers, numbers of partitions and how many writes they had; no keys, no items.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from azlatch.contracts import session_errors as errors
from azlatch.contracts.session import (
    MOST_RANGES,
    ContainerTokens,
    RangeToken,
    split_tokens,
)  # fmt: skip
from azlatch.errors import UsageError

VERSION = "v1"
#: Of an envelope, unless another limit is given: what a cookie can hold.
MOST_BYTES = 3_800
#: Whatever limit is given.
MOST_BYTES_EVER = 1024 * 1024
_LEAST_SECRET = 16
_KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,32}")
_FORM = re.compile(r"v1\.([A-Za-z0-9_-]{1,32})\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]{43})", re.ASCII)
_PURPOSE = b"azlatch session envelope\0"
_SCOPE_TEXT = 1_024
_MOST_SCOPES = 64


@dataclass(frozen=True, slots=True)
class SessionKey:
    """A secret that envelopes are signed with, and its public name, which is new with each new secret."""

    id: str
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not _KEY_ID.fullmatch(self.id):
            raise UsageError(f"key id {self.id!r}: use 1 to 32 letters, digits, hyphens and underscores")
        if not isinstance(self.secret, bytes) or len(self.secret) < _LEAST_SECRET:
            raise UsageError(f"the secret of key {self.id!r}: give it {_LEAST_SECRET} or more random bytes")


@dataclass(frozen=True, slots=True)
class Sealed:
    """An envelope, and how many of the session's tokens had no room in it."""

    text: str
    left_out: int


def check_keys(keys: Sequence[SessionKey]) -> tuple[SessionKey, ...]:
    """The same, if they can be used together. Raises UsageError."""
    found = tuple(keys)
    if not found or not all(isinstance(each, SessionKey) for each in found):
        raise UsageError("keys: give one SessionKey or more; the first one signs, all of them are accepted")
    if len({each.id for each in found}) != len(found):
        raise UsageError("keys: two of them have the same id")
    return found


def seal(
    account: str,
    containers: Mapping[str, ContainerTokens],
    keys: Sequence[SessionKey],
    *,
    now: float,
    max_age_s: float,
    most_bytes: int = MOST_BYTES,
) -> Sealed:
    """Puts tokens into an envelope, the most recently used first, as many as there is room for.

    Raises:
        SessionOversized: there is no room even for the names of the containers.
    """
    key = check_keys(keys)[0]
    left_out = {link: each.left_out + len(each.ranges) for link, each in containers.items()}
    chosen: dict[str, list[RangeToken]] = {link: [] for link in containers}
    waiting = sorted(
        ((link, token) for link, each in containers.items() for token in each.ranges.values()),
        key=lambda pair: pair[1].touched,
    )
    # What precedes and follows the payload, and the payload's own growth by Base64.
    room = (most_bytes - len(VERSION) - len(key.id) - 43 - 3) * 3 // 4
    size = len(_payload(account, containers, chosen, left_out, now, max_age_s))
    while waiting:
        link, token = waiting[-1]
        needs = len(_dumps(_entry(token))) + 1
        if size + needs > room:
            break
        size += needs
        chosen[link].append(token)
        left_out[link] -= 1
        waiting.pop()
    # The oldest first, so that the order of use survives the journey.
    for tokens in chosen.values():
        tokens.reverse()
    payload = _payload(account, containers, chosen, left_out, now, max_age_s)
    text = _sign(payload, key)
    if len(text) > most_bytes:
        raise errors.SessionOversized(
            f"{len(containers)} containers need {len(text)} bytes without any token: the limit is {most_bytes}"
        )
    return Sealed(text, sum(left_out.values()))


def unseal(
    text: str,
    account: str,
    keys: Sequence[SessionKey],
    *,
    now: float,
    most_bytes: int = MOST_BYTES,
    containers: Collection[str] | None = None,
) -> dict[str, ContainerTokens]:
    """What an envelope says, if it is one that was signed with one of the keys, for this account.

    Raises:
        SessionOversized, SessionDamaged, SessionKeyUnknown, SessionExpired, SessionForeign: it is not taken.
    """
    if len(text) > most_bytes:
        raise errors.SessionOversized(f"the session has {len(text)} bytes: at most {most_bytes} are taken")
    form = _FORM.fullmatch(text)
    if form is None:
        raise errors.SessionDamaged("the session does not read v1.KEY.PAYLOAD.TAG")
    key = next((each for each in check_keys(keys) if each.id == form[1]), None)
    if key is None:
        raise errors.SessionKeyUnknown("the session is signed with a key that is not known here")
    signed, _, tag = text.rpartition(".")
    if not hmac.compare_digest(_tag(signed, key), tag):
        raise errors.SessionDamaged("the session was changed on its way, or its key has another secret here")
    try:
        payload = json.loads(_unbase64(form[2]))
        expires = float(payload["x"])
        of_account = payload["a"]
        found = {link: _container(rest) for link, *rest in payload["c"]}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, errors.SessionDamaged):
        raise errors.SessionDamaged("the session is signed, and says nothing that is understood here") from None
    if of_account != account:
        raise errors.SessionForeign("the session is of another account")
    if containers is not None and not found.keys() <= set(containers):
        raise errors.SessionForeign("the session is of a container that is not expected here")
    if not now <= expires:
        raise errors.SessionExpired(f"the session ended {now - expires:.0f} s ago")
    return found


def _payload(
    account: str,
    containers: Mapping[str, ContainerTokens],
    chosen: Mapping[str, list[RangeToken]],
    left_out: Mapping[str, int],
    now: float,
    max_age_s: float,
) -> bytes:
    rows = [
        [link, each.rid, left_out[link], each.lost, [_entry(token) for token in chosen[link]]]
        for link, each in containers.items()
    ]
    return _dumps({"a": account, "x": int(now + max_age_s), "c": rows})


def _entry(token: RangeToken) -> list[Any]:
    if token.scopes is None:
        return [token.text]
    return [token.text, [_short(each) for each in token.scopes]]


def _short(scope: str) -> Any:
    """A feed range as the SDK of today writes it takes less room; another form is carried as it is."""
    found = json.loads(scope)
    inner = found.get("Range") if isinstance(found, dict) and len(found) == 1 else None
    if isinstance(inner, dict) and inner.keys() == {"min", "max", "isMinInclusive", "isMaxInclusive"}:
        low, high = inner["min"], inner["max"]
        if inner["isMinInclusive"] is True and isinstance(low, str) and isinstance(high, str):
            if inner["isMaxInclusive"] is True and low == high:
                return low
            if inner["isMaxInclusive"] is False:
                return [low, high]
    return found


def _long(short: Any) -> str:
    if isinstance(short, str):
        short = {"Range": {"min": short, "max": short, "isMinInclusive": True, "isMaxInclusive": True}}
    elif isinstance(short, list):
        low, high = short
        short = {"Range": {"min": low, "max": high, "isMinInclusive": True, "isMaxInclusive": False}}
    text = json.dumps(short, sort_keys=True, separators=(",", ":"))
    if not isinstance(short, dict) or len(text) > _SCOPE_TEXT:
        raise ValueError("this is no feed range")
    return text


def _container(row: list[Any]) -> ContainerTokens:
    rid, left_out, lost, entries = row
    if not (rid is None or isinstance(rid, str)) or not (lost is None or isinstance(lost, str)):
        raise ValueError("a container's id or state is no text")
    if isinstance(left_out, bool) or not isinstance(left_out, int) or left_out < 0:
        raise ValueError("a count is none")
    if len(entries) > MOST_RANGES:
        raise ValueError("these are too many tokens")
    ranges = {}
    for number, (text, *more) in enumerate(entries):
        (checked,) = split_tokens(text)
        # Too many to look at: then it is sent with every read, which is stronger.
        scopes = tuple(_long(each) for each in more[0]) if more and len(more[0]) <= _MOST_SCOPES else None
        token = RangeToken(checked, scopes, number)
        ranges[token.range_id] = token
    return ContainerTokens(rid, ranges, left_out, lost)


def _sign(payload: bytes, key: SessionKey) -> str:
    signed = f"{VERSION}.{key.id}.{_base64(payload)}"
    return f"{signed}.{_tag(signed, key)}"


def _tag(signed: str, key: SessionKey) -> str:
    return _base64(hmac.new(key.secret, _PURPOSE + signed.encode("ascii"), hashlib.sha256).digest())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _unbase64(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _dumps(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
