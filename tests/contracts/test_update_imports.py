"""What the data contracts load, and when."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from azlatch import contracts

SOURCE = Path(contracts.__file__).parent
CORE = (
    "answer",
    "difference",
    "json_value",
    "operations",
    "reconcile",
    "refusal",
    "update",
    "update_errors",
    "update_steps",
)
IMPURE = {"asyncio", "azure", "os", "random", "secrets", "socket", "threading", "time"}


@pytest.mark.parametrize("name", CORE)
def test_the_core_of_an_update_is_pure(name: str) -> None:
    """It does no I/O, tells no time and draws nothing."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((SOURCE / f"{name}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    assert found & IMPURE == set()


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("from azlatch import contracts", {"azure", "asyncio", "hashlib", "secrets"}),
        ("from azlatch import contracts; contracts.update_item", {"azure", "asyncio", "aiohttp"}),
        ("from azlatch.contracts import aio; aio.update_item", {"azure", "aiohttp"}),
    ],
)
def test_importing_loads_no_sdk(code: str, absent: set[str]) -> None:
    """Each part when it is first touched, and the SDK never: who calls has it already."""
    code += "; import sys; print(*sorted(name.split('.')[0] for name in sys.modules))"
    said = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert set(said.stdout.split()) & absent == set()
