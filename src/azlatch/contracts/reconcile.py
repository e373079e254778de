"""Ready rules for conflicts: what becomes of an item that two sides changed from one version.

A rule is a function of `(base, theirs, mine)` that returns the next proposal, or raises ConflictNeedsDecision.
The rules here work by field, and are joined with `|`::

    rule = numeric_delta("position") | append_to_set("tags") | take_mine("updatedAt")

A field that only one side changed has that side's value; one that both changed is for the rule that names it,
and if there is none, for a person. Objects are gone into, lists are one value. Rules look at one field at a
time: what has to hold between two fields (a sum, say) they do not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from azlatch.contracts.difference import MISSING, SYSTEM_PROPERTIES, differences
from azlatch.contracts.json_value import copied, escaped, same
from azlatch.contracts.update_errors import ConflictNeedsDecision
from azlatch.errors import UsageError

#: The service keeps numbers as doubles: above, whole numbers are not exact.
MOST_EXACT = 2**53

Item = dict[str, Any]
Resolver = Callable[[Any, Any, Any], Any]


class _Undecided(Exception):
    """This field is not for this rule."""


class Rule:
    """A merge of three versions by field; call it, or join it to others with `|`.

    Args:
        resolvers: for each field, as a JSON pointer, what is done if both sides changed it.
    """

    def __init__(self, resolvers: Mapping[str, Resolver]) -> None:
        self._resolvers = dict(resolvers)

    def __or__(self, other: Rule) -> Rule:
        """Both rules in one.

        Raises:
            UsageError: a field is named by both.
        """
        if not isinstance(other, Rule):
            return NotImplemented
        twice = self._resolvers.keys() & other._resolvers.keys()
        if twice:
            raise UsageError(f"{', '.join(sorted(twice))}: named by two rules; name each field once")
        return Rule({**self._resolvers, **other._resolvers})

    def __call__(self, base: Mapping[str, Any], theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> Item:
        """The merged item.

        Raises:
            ConflictNeedsDecision: both sides changed a field, and no rule says what becomes of it.
        """
        one, two, three = (copied(each) for each in (base, theirs, mine))
        for name in SYSTEM_PROPERTIES:
            # Not the caller's to merge: the stored version's are right.
            for each in (one, three):
                each.pop(name, None)
                if name in two:
                    each[name] = two[name]
        open_paths: list[str] = []
        merged = self._merge("", one, two, three, open_paths)
        if open_paths:
            raise ConflictNeedsDecision(
                f"both sides changed {', '.join(open_paths)}: a decision is needed",
                base=copied(base),
                theirs=copied(theirs),
                mine=copied(mine),
                differences=differences(base, theirs, mine),
            )
        assert isinstance(merged, dict)
        return merged

    def _merge(self, path: str, base: Any, theirs: Any, mine: Any, open_paths: list[str]) -> Any:
        resolver = self._resolvers.get(path)
        if resolver is None and all(isinstance(each, dict) for each in (base, theirs, mine)):
            return self._merged_object(path, base, theirs, mine, open_paths)
        if same(base, mine):
            return theirs
        if same(base, theirs):
            return mine
        if resolver is not None:
            try:
                return resolver(base, theirs, mine)
            except _Undecided:
                open_paths.append(path)
                return theirs
        if same(theirs, mine):
            return theirs
        open_paths.append(path)
        return theirs

    def _merged_object(self, path: str, base: Item, theirs: Item, mine: Item, open_paths: list[str]) -> Item:
        found: Item = {}
        for name in {**theirs, **mine, **base}:
            one, two, three = (each.get(name, MISSING) for each in (base, theirs, mine))
            merged = self._merge(f"{path}/{escaped(name)}", one, two, three, open_paths)
            if merged is not MISSING:
                found[name] = merged
        return found


#: A field that only one side changed has that side's value; what both changed differently needs a decision.
three_way = Rule({})


def numeric_delta(*fields: str) -> Rule:
    """A rule for fields to which each side adds: theirs plus what this side added, exact in decimal.

    Args:
        fields: names of properties, or JSON pointers (`/limits/cash`).

    Raises:
        UsageError: there is none.
    """
    return _for_fields(fields, _added)


def append_to_set(*fields: str) -> Rule:
    """A rule for lists to which each side appends what is not there yet: theirs, then what is new in mine.

    What this side took out needs a decision if the other side changed the list, too.

    Args:
        fields: names of properties, or JSON pointers.

    Raises:
        UsageError: there is none.
    """
    return _for_fields(fields, _appended)


def take_mine(*fields: str) -> Rule:
    """A rule for fields in which the later one is right, such as a time of change.

    Args:
        fields: names of properties, or JSON pointers.

    Raises:
        UsageError: there is none.
    """
    return _for_fields(fields, lambda _base, _theirs, mine: mine)


def _for_fields(fields: tuple[str, ...], resolver: Resolver) -> Rule:
    if not fields or not all(isinstance(each, str) and each.strip("/") for each in fields):
        raise UsageError(f"fields are {fields!r}: name at least one property, or a JSON pointer such as /a/b")
    pointers = [each if each.startswith("/") else f"/{escaped(each)}" for each in fields]
    return Rule(dict.fromkeys(pointers, resolver))


def _added(base: Any, theirs: Any, mine: Any) -> Any:
    start = 0 if base is MISSING else base
    if not all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in (start, theirs, mine)):
        raise _Undecided
    # Of what is written, not of the nearest binary fraction: 0.1 + 0.2 is 0.3 on an account.
    total = Decimal(repr(theirs)) + (Decimal(repr(mine)) - Decimal(repr(start)))
    if abs(total) > MOST_EXACT:
        raise _Undecided
    if all(isinstance(each, int) for each in (start, theirs, mine)):
        return int(total)
    return float(total)


def _appended(base: Any, theirs: Any, mine: Any) -> Any:
    start = [] if base is MISSING else base
    if not all(isinstance(each, list) for each in (start, theirs, mine)):
        raise _Undecided
    if any(not _contains(mine, each) for each in start):
        raise _Undecided
    found = list(theirs)
    for each in mine:
        if not _contains(start, each) and not _contains(found, each):
            found.append(each)
    return found


def _contains(values: list[Any], value: Any) -> bool:
    return any(same(each, value) for each in values)
