"""What the code may import, and what the package exports."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import azlatch

SOURCE = Path(azlatch.__file__).parent
IMPURE = {"asyncio", "azure", "os", "random", "socket", "sqlite3", "subprocess", "threading", "time"}


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """All that runs: what only a type checker reads imports nothing."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield child
            yield from _executed(child)


def imports(file: Path) -> set[str]:
    found: set[str] = set()
    for node in _executed(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize("file", sorted((SOURCE / "core").glob("*.py")), ids=lambda file: file.name)
def test_the_core_is_pure(file: Path) -> None:
    """The core imports nothing that does I/O, tells the time or draws numbers."""
    assert {name.split(".")[0] for name in imports(file)} & IMPURE == set()


def test_only_backends_import_azure() -> None:
    """Nothing but a backend or the lab imports an Azure package."""
    allowed = {SOURCE / "backends", SOURCE / "lab", SOURCE / "contracts"}
    for file in SOURCE.rglob("*.py"):
        if not allowed & set(file.parents):
            assert not any(name.split(".")[0] == "azure" for name in imports(file)), file


def test_importing_loads_the_standard_library_only() -> None:
    """`import azlatch` loads nothing but the standard library, and not its slow parts."""
    code = "import sys; before = set(sys.modules); import azlatch; print(*sorted(set(sys.modules) - before))"
    said = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in said.stdout.split()}
    assert loaded - {"azlatch"} <= set(sys.stdlib_module_names)
    assert loaded & {"asyncio", "sqlite3", "http", "email", "unittest", "json", "logging.config"} == set()


def test_the_command_without_its_extra_says_how_to_get_it() -> None:
    """Without click, `azlatch` prints the pip command on stderr and exits 64."""
    code = "import sys; sys.modules['click'] = None; from azlatch.cli import main; sys.exit(main())"
    said = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=30)
    assert (said.returncode, said.stdout) == (64, "")
    assert "pip install 'azlatch[cli]'" in said.stderr


def test_exports() -> None:
    """The public names, all of them."""
    assert azlatch.__all__ == [
        "AcquireTimeout", "BackendDenied", "BackendError", "BackendMisconfigured", "BackendThrottled",
        "BackendUnavailable", "FenceRejected", "HeartUnavailable", "Hold", "HoldLost", "LatchError", "Latches",
        "OutcomeUnknown", "UsageError", "aio", "connect", "guarded",
    ]  # fmt: skip
    assert all(hasattr(azlatch, name) for name in azlatch.__all__)


def errors(kind: type[azlatch.LatchError] = azlatch.LatchError) -> list[type[azlatch.LatchError]]:
    return [kind, *(each for sub in kind.__subclasses__() for each in errors(sub))]


def test_every_error_has_its_own_code_and_someone_to_fix_it() -> None:
    """Codes are unique and lower case, and the tree in the docstring of its module names every error."""
    codes = [error.code for error in errors()]
    assert len(set(codes)) == len(codes)
    assert {error.who for error in errors()} <= {"caller", "operator", "service", "us"}
    for error in errors():
        assert error.__name__ in (sys.modules[error.__module__].__doc__ or "")
