"""What two versions changed, seen from the version that both began with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from azlatch.contracts.json_value import copied, escaped, same

#: Set by the service, anew with each write.
SYSTEM_PROPERTIES = frozenset({"_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"})


class _Missing:
    """The property is not there, which is not the same as null."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False

    def __copy__(self) -> _Missing:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> _Missing:
        return self

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that not all three versions agree on.

    Attributes:
        path: where, as a JSON pointer.
        base: the value that both sides began with, or MISSING.
        theirs: what is stored now.
        mine: what the update wants.
    """

    path: str
    base: Any
    theirs: Any
    mine: Any

    @property
    def changed_by(self) -> Literal["theirs", "mine", "both"]:
        """Whose change it is."""
        if same(self.base, self.mine):
            return "theirs"
        return "mine" if same(self.base, self.theirs) else "both"

    @property
    def is_conflict(self) -> bool:
        """Whether both sides changed it, and not to the same."""
        return self.changed_by == "both" and not same(self.theirs, self.mine)

    def __str__(self) -> str:
        return f"{self.path}: {self.base!r} -> theirs {self.theirs!r}, mine {self.mine!r}"


def differences(
    base: Mapping[str, Any], theirs: Mapping[str, Any], mine: Mapping[str, Any]
) -> tuple[Difference, ...]:
    """Every value that the three do not agree on, by path. Objects are compared by name, lists as a whole.

    What the service sets by itself (`_etag`, `_ts` and so on) is left out.

    Raises:
        UsageError: one of them is no JSON.
    """
    found = [_own(copied(each)) for each in (base, theirs, mine)]
    return tuple(sorted(_walk("", *found), key=lambda each: each.path))


def _own(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in SYSTEM_PROPERTIES}


def _walk(path: str, base: Any, theirs: Any, mine: Any) -> Iterator[Difference]:
    if same(base, theirs) and same(base, mine):
        return
    if all(isinstance(each, dict) for each in (base, theirs, mine)):
        for name in {**base, **theirs, **mine}:
            values = (each.get(name, MISSING) for each in (base, theirs, mine))
            yield from _walk(f"{path}/{escaped(name)}", *values)
        return
    yield Difference(path, base, theirs, mine)
