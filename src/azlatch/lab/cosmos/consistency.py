"""Which replica answers a read, at each of the five levels, and what of it counts as fresh enough.

The rule is that of the service's formal model (github.com/Azure/azure-cosmos-tla, simple-model/CosmosDB.tla):
Strong reads what all regions have; BoundedStaleness that or newer; Session what its token has seen, or an
error; ConsistentPrefix and Eventual what any one replica has.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from azlatch.lab.cosmos import errors
from azlatch.lab.cosmos.partition import PhysicalPartition
from azlatch.lab.cosmos.session_token import SessionToken
from azlatch.lab.cosmos.topology import LEVELS, REPLICAS, Level, Region
from azlatch.lab.cosmos.versions import View


def level_of(asked: str, account: Level) -> Level:
    """The level of a request.

    Raises:
        ServiceError: 400 for an unknown level, or one that is stronger than the account's.
    """
    if not asked:
        return account
    for level in LEVELS:
        if level.lower() == asked.lower():
            if LEVELS.index(level) < LEVELS.index(account):
                raise errors.bad_request(
                    f"ConsistencyLevel {level} specified in the request is invalid when service is configured "
                    f"with consistency level {account}. Ensure the request consistency level is not stronger "
                    "than the service consistency level."
                )
            return level
    raise errors.bad_request("The value of the header x-ms-consistency-level is not a consistency level.")


def token_for(tokens: Mapping[str, SessionToken], part: PhysicalPartition) -> SessionToken | None:
    """Of the tokens of a request, the one that speaks of a partition: its own, else the nearest parent's."""
    for name in (part.id, *reversed(part.parents)):
        if name in tokens:
            return tokens[name]
    return None


def view_for(
    part: PhysicalPartition,
    region: Region,
    level: Level,
    token: SessionToken | None,
    random: Random,
    now: float,
) -> View:
    """What the replica shows that answers.

    Raises:
        ServiceError: 404/1002, no replica of the region has all that the token has seen.
    """
    part.advance(now)
    if level != "Session":
        token = None
    if part.is_even:
        if token is not None and not part.satisfies(None, token):
            raise errors.behind_session()
        return None
    if level == "Strong":
        return part.replication.committed()
    if level == "BoundedStaleness":
        return part.replication.view(region, late=False)
    late = random.randrange(REPLICAS) == 0
    first = part.replication.view(region, late=late)
    if token is None or part.satisfies(first, token):
        return first
    second = part.replication.view(region, late=not late)
    if part.satisfies(second, token):
        return second
    raise errors.behind_session()
