"""The credential of the data plane."""

from __future__ import annotations

import os


def get_credential(*, is_async: bool = False) -> str:
    """The account's key, for both kinds of client: a local service has no Entra ID to ask."""
    del is_async
    return os.environ["ACCOUNT_KEY"]
