"""Session tokens: how far a client has seen one physical partition.

The form is `{range}:{version}#{global LSN}#{region}={local LSN}#...`, several of them joined by commas; older
forms are `{range}:-1#{LSN}` and `{range}:{LSN}`. The SDK (`_vector_session_token.py`, `_session.py` of
azure-cosmos 4.17.1) reads all but the last one, so that is read here and never written.

The version counts changes of the regions, and merges. A higher version may come with a lower LSN: LSNs of
different versions do not compare.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from azlatch.lab.cosmos.errors import ServiceError, bad_request

#: Longest header that is looked at, characters; gateways cut headers off well below it.
_MOST_CHARACTERS = 64 * 1024
#: Most tokens in one header.
_MOST_TOKENS = 2_048
#: Most regions in one token.
_MOST_REGIONS = 64

#: The version of the forms that have none.
NO_VERSION = -1

_RANGE = re.compile(r"[A-Za-z0-9]{1,16}")
_NUMBER = re.compile(r"-?[0-9]{1,19}", re.ASCII)


@dataclass(frozen=True, slots=True)
class SessionToken:
    """What was seen of one range: its LSN, and the LSN in each region by the region's number."""

    range_id: str
    version: int
    global_lsn: int
    regions: dict[int, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> SessionToken:
        """One token from its text.

        Raises:
            ServiceError: 400 for what is none.
        """
        range_id, colon, rest = text.strip().partition(":")
        if not colon or not _RANGE.fullmatch(range_id):
            raise _invalid(text)
        first, *others = rest.split("#", _MOST_REGIONS + 2)
        if not others:
            return cls(range_id, NO_VERSION, _number(first, text))
        if len(others) > _MOST_REGIONS + 1:
            raise _invalid(text)
        regions: dict[int, int] = {}
        for each in others[1:]:
            region, equals, lsn = each.partition("=")
            number = _number(region, text)
            if not equals or number < 0 or number in regions:
                raise _invalid(text)
            regions[number] = _number(lsn, text)
        return cls(range_id, _number(first, text), _number(others[0], text), regions)

    def __str__(self) -> str:
        regions = "".join([f"#{region}={lsn}" for region, lsn in self.regions.items()])
        return f"{self.range_id}:{self.version}#{self.global_lsn}{regions}"

    def merge(self, other: SessionToken) -> SessionToken:
        """What both have seen together, for the range of this one.

        Of different versions, the higher one tells the LSN and which regions there are.

        Raises:
            ServiceError: 400 if one version has two sets of regions, which no service has written.
        """
        low, high = sorted((self, other), key=lambda each: each.version)
        if low.version == high.version:
            if low.regions.keys() != high.regions.keys():
                raise bad_request("Compared session tokens have unexpected regions.")
            lsn = max(low.global_lsn, high.global_lsn)
        else:
            lsn = high.global_lsn
        regions = {region: max(lsn, low.regions.get(region, lsn)) for region, lsn in high.regions.items()}
        return SessionToken(self.range_id, high.version, lsn, regions)


def parse_header(text: str) -> dict[str, SessionToken]:
    """The tokens of the header x-ms-session-token by their range; none for an empty one.

    Two tokens of one range count as their merge.

    Raises:
        ServiceError: 400 if one of them is no token, or there are too many.
    """
    if not text.strip():
        return {}
    if len(text) > _MOST_CHARACTERS or text.count(",") >= _MOST_TOKENS:
        raise bad_request("The session token is too long.")
    tokens: dict[str, SessionToken] = {}
    for each in text.split(","):
        token = SessionToken.parse(each)
        known = tokens.get(token.range_id)
        tokens[token.range_id] = known.merge(token) if known else token
    return tokens


def format_header(tokens: dict[str, SessionToken]) -> str:
    """The tokens as one header."""
    return ",".join([str(each) for each in tokens.values()])


def _number(text: str, token: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise _invalid(token)
    return int(text)


def _invalid(text: str) -> ServiceError:
    return bad_request(f"The session token provided '{text[:100]}' is invalid.")
