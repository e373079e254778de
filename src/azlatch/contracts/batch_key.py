"""The partition key of a batch, and whether its items have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from azlatch.errors import UsageError
from azlatch.gates.cosmos_key import ItemKey, parts_of


class BatchKey(ItemKey):
    """The value that a batch is for, by the definition of its container.

    Raises:
        UsageError: the value is not one that the container can have.
    """

    def __init__(self, value: object, definition: Mapping[str, Any]) -> None:
        super().__init__(
            value,
            definition,
            "the batch",
            "a batch is for one partition key; put items of other keys into batches of their own, which are "
            "not atomic together",
        )

    def check_patch(self, step: Mapping[str, Any], where: str) -> None:
        """Raises UsageError where a step of a patch would change the partition key."""
        for name in ("path", "from") if step["op"] == "move" else ("path",):
            touched = str(step[name]).strip("/").split("/")
            for path, parts in zip(self.paths, map(parts_of, self.paths), strict=True):
                shared = min(len(touched), len(parts))
                if touched[:shared] == parts[:shared]:
                    raise UsageError(
                        f"{where} changes {path}, the partition key, which cannot be changed in place: create "
                        "the item under the new key, then delete it under the old one"
                    )
