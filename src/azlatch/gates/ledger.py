"""What a file gate remembers: the newest acceptances in order, in a form that shows any damage."""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple

from azlatch.errors import BackendMisconfigured
from azlatch.gates.fence import MAX_FENCE, Acceptance

#: How many of the newest acceptances a ledger keeps, and the most bytes that one can take.
KEPT = 100
MAX_BYTES = 16_384

_VERSION = 1


class Ledger(NamedTuple):
    """The newest acceptances, oldest first; empty before the first."""

    accepted: tuple[Acceptance, ...] = ()

    @property
    def newest(self) -> int | None:
        """The newest fence accepted, or None before the first."""
        return self.accepted[-1].fence if self.accepted else None

    def with_next(self, fence: int) -> Ledger:
        """The ledger after one more acceptance."""
        sequence = self.accepted[-1].sequence + 1 if self.accepted else 1
        return Ledger((*self.accepted, Acceptance(sequence, fence))[-KEPT:])

    def encode(self) -> bytes:
        """One line of JSON, and the SHA-256 of it."""
        body = json.dumps({"azlatch_gate": _VERSION, "accepted": self.accepted}, separators=(",", ":")).encode()
        return body + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n"


def decode(raw: bytes, path: str) -> Ledger:
    """The ledger that `encode` wrote.

    Raises:
        BackendMisconfigured: damaged, or of a newer azlatch; never taken for an empty one.
    """
    body, _, digest = raw.partition(b"\n")
    if digest != hashlib.sha256(body).hexdigest().encode() + b"\n":
        raise damaged(path)
    try:
        content = json.loads(body)
        version, rows = content["azlatch_gate"], content["accepted"]
        if version != _VERSION:
            raise BackendMisconfigured(
                f"{path} has format {version!r} and this azlatch knows {_VERSION}: upgrade it"
            )
        ledger = Ledger(tuple(Acceptance(sequence, fence) for sequence, fence in rows))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise damaged(path) from error
    if not ledger.accepted or not all(_plausible(*acceptance) for acceptance in ledger.accepted):
        raise damaged(path)
    for before, after in zip(ledger.accepted, ledger.accepted[1:], strict=False):
        if after.sequence != before.sequence + 1 or after.fence < before.fence:
            raise damaged(path)
    return ledger


def damaged(path: str) -> BackendMisconfigured:
    """The error for a ledger that cannot be believed."""
    return BackendMisconfigured(
        f"{path} is damaged or gone, so the newest fence is unknown and nothing was written: put it back from "
        "a copy, or, once no older writer can be left, remove it together with the .gate file next to it"
    )


def _plausible(sequence: object, fence: object) -> bool:
    return type(sequence) is int and sequence >= 1 and type(fence) is int and 0 <= fence <= MAX_FENCE
