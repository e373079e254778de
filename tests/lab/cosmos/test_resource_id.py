"""Resource ids: what the SDK takes them for, and that no two meet."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from azure.cosmos._base import GetItemContainerInfo, IsItemContainerLink, IsNameBased
from hypothesis import given
from hypothesis import strategies as st

from azlatch.lab.cosmos.resource_id import (
    child_id,
    container_id,
    database_id,
    kind_of,
    offer_id,
    parent_of,
    permission_id,
    user_id,
)

IN_CONTAINERS = ["docs", "sprocs", "triggers", "udfs", "conflicts", "pkranges"]

databases = st.integers(1, 2**32 - 1)
containers = st.integers(0, 2**31 - 1)
numbers = st.integers(1, 2**60 - 1)


def test_the_looks() -> None:
    """Those of the service, and the same for the same numbers."""
    database = database_id(1)
    container = container_id(database, 2)
    assert database == "AAAAAQ=="
    assert container == "AAAAAYAAAAI="
    assert child_id(container, "docs", 1) == "AAAAAYAAAAIBAAAAAAAAAA=="
    assert child_id(container, "pkranges", 1) == "AAAAAYAAAAIBAAAAAAAAUA=="
    assert user_id(database, 1) == "AAAAAQAAAAE="
    assert len(offer_id(1)) == 4


@given(databases)
def test_the_sdk_takes_a_database_for_an_id(counter: int) -> None:
    """A link by `_rid` is not one by name."""
    rid = database_id(counter)
    assert "/" not in rid
    assert not IsNameBased(f"dbs/{rid}/")
    assert not IsNameBased(f"dbs/{rid}/colls/{container_id(rid, 1)}/")


@given(databases, containers, numbers)
def test_the_sdk_finds_the_container_in_a_self_link(database: int, container: int, document: int) -> None:
    """Else it would not remember session tokens."""
    of_database = database_id(database)
    of_container = container_id(of_database, container)
    link = f"dbs/{of_database}/colls/{of_container}/docs/{child_id(of_container, 'docs', document)}/"
    assert GetItemContainerInfo(link, "dbs/d/colls/c", "") == (of_container, "dbs/d/colls/c")
    assert IsItemContainerLink(f"dbs/{of_database}/colls/{of_container}/")


@given(databases, containers, numbers, st.sampled_from(IN_CONTAINERS))
def test_kind_and_parent(database: int, container: int, number: int, kind: str) -> None:
    """An id tells both."""
    of_database = database_id(database)
    of_container = container_id(of_database, container)
    child = child_id(of_container, kind, number)
    assert (kind_of(child), parent_of(child)) == (kind, of_container)
    assert (kind_of(of_container), parent_of(of_container)) == ("colls", of_database)
    assert (kind_of(of_database), parent_of(of_database)) == ("dbs", "")


@given(databases, st.integers(1, 2**31 - 1), numbers)
def test_users(database: int, user: int, number: int) -> None:
    """They and their permissions are no containers and no documents."""
    of_user = user_id(database_id(database), user)
    permission = permission_id(of_user, number)
    assert (kind_of(of_user), parent_of(of_user)) == ("users", database_id(database))
    assert (kind_of(permission), parent_of(permission)) == ("permissions", of_user)


@given(st.integers(1, 2**24 - 1))
def test_offers(counter: int) -> None:
    """They have no parent."""
    assert (kind_of(offer_id(counter)), parent_of(offer_id(counter))) == ("offers", "")


def test_no_two_meet() -> None:
    """Whatever kind and number."""
    container = container_id(database_id(1), 1)
    made = [child_id(container, kind, number) for kind in IN_CONTAINERS for number in range(1, 300)]
    assert len(set(made)) == len(made)


@given(databases, containers)
def test_the_bytes(database: int, container: int) -> None:
    """Four of the database, four of the container with the highest bit set."""
    data = base64.b64decode(container_id(database_id(database), container).replace("-", "/"))
    assert data == database.to_bytes(4, "big") + (container | 1 << 31).to_bytes(4, "big")


@pytest.mark.parametrize(
    "rid", ["", "db", "mydata", "database", "AAAAAQ=", "AAA/AQ==", "A" * 32, "ä" * 4, "AAAAAQ==\n"]
)
def test_names_are_no_ids(rid: str) -> None:
    """Unless they look like one by chance."""
    assert kind_of(rid) == parent_of(rid) == ""


@pytest.mark.parametrize(
    "make",
    [
        lambda: database_id(0),
        lambda: database_id(2**32),
        lambda: container_id(database_id(1), 2**31),
        lambda: container_id("x", 1),
        lambda: user_id(database_id(1), 0),
        lambda: child_id(container_id(database_id(1), 1), "docs", 2**60),
        lambda: child_id(container_id(database_id(1), 1), "docs", 0),
        lambda: child_id(user_id(database_id(1), 1), "docs", 1),
        lambda: permission_id(container_id(database_id(1), 1), 1),
        lambda: offer_id(2**24),
    ],
)
def test_numbers_and_parents_are_checked(make: Callable[[], str]) -> None:
    """A counter that runs over must not make an id that exists."""
    with pytest.raises(ValueError, match=r"it is the id|beyond"):
        make()
