"""The recipes, taken from docs/recipes.md, in processes with the variables of the platforms, on Azurite."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import typing
from pathlib import Path
from typing import Any

import azure.functions as func
import pytest

import azlatch
from azlatch.backends.storage_account import container_of
from azlatch.lab.azurite import Azurite

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
AZLATCH = [sys.executable, "-m", "azlatch"]

FUNCTIONS = {
    "FUNCTIONS_WORKER_RUNTIME": "python",
    "WEBSITE_SITE_NAME": "shop",
    "WEBSITE_INSTANCE_ID": "0a1b2c3d4e5f",
}
APP_SERVICE = {"WEBSITE_SITE_NAME": "shop", "WEBSITE_INSTANCE_ID": "0a1b2c3d4e5f"}
CONTAINER_APPS = {
    "CONTAINER_APP_JOB_NAME": "nightly",
    "CONTAINER_APP_JOB_EXECUTION_NAME": "nightly-x7k2m",
}
KUBERNETES = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "POD_NAME": "nightly-29000-abcde", "HOSTNAME": "node"}


def code_with(text: str) -> str:
    """The only block of Python on the page that has this text."""
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if text in block]
    return code


def command_of(section: str) -> list[str]:
    """The container's command in the YAML of a section."""
    found = re.search(rf"^## {section}$.*?^ +command: (\[[^\n]*\])$", PAGE, re.MULTILINE | re.DOTALL)
    assert found
    command: list[str] = json.loads(found[1])
    return command


class Place:
    """A process's place: a folder, the platform's variables, and a store on Azurite."""

    def __init__(self, folder: Path, azurite: Azurite, container: str) -> None:
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("AZLATCH", "AZURE"))},
            "AzureWebJobsStorage": azurite.connection_string,
            "AZLATCH_URL": f"blob://devstoreaccount1/{container}?connection=AzureWebJobsStorage",
            "XDG_STATE_HOME": str(folder / "state"),
        }

    def run(self, command: list[str], platform: dict[str, str], code: int = 0) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**self.environment, **platform},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout

    def python(self, script: str, platform: dict[str, str]) -> Any:
        """What a script prints last, as JSON."""
        output = self.run([sys.executable, "-W", "error", "-c", textwrap.dedent(script)], platform)
        return json.loads(output.splitlines()[-1])


@pytest.fixture
def place(azurite: Azurite, container: str, tmp_path: Path) -> Place:
    """A place whose container `azlatch doctor --apply` has made."""
    made = Place(tmp_path, azurite, container)
    made.run([*AZLATCH, "doctor", "--apply"], FUNCTIONS)
    return made


def test_without_a_url_there_is_no_default(place: Place) -> None:
    """On every one of the platforms a missing AZLATCH_URL is a usage error, not a store of one's own."""
    del place.environment["AZLATCH_URL"]
    for platform in (FUNCTIONS, APP_SERVICE, CONTAINER_APPS, KUBERNETES):
        place.run([*AZLATCH, "list"], platform, code=64)


def test_an_identity_signs_in_where_there_is_no_connection_string() -> None:
    """NAME__accountName and NAME__clientId lead to a client with DefaultAzureCredential; no request is made."""
    environment = {"Jobs__accountName": "shop", "Jobs__clientId": "11111111-2222-3333-4444-555555555555"}
    account, container = container_of("blob://shop/latches?connection=Jobs", environment)
    assert (account.endpoint, container) == ("https://shop.blob.core.windows.net", "latches")
    assert account.client_id == environment["Jobs__clientId"]
    with account.container(container) as client:
        assert type(client.credential).__name__ == "DefaultAzureCredential"


def test_functions(place: Place) -> None:
    """The function indexes without `hold`, runs with one, and is skipped while another instance has it."""
    (place.folder / "function_app.py").write_text(code_with("timer_trigger"), encoding="utf-8")
    facts = place.python(
        """
        import inspect, json, threading, typing
        import azlatch
        import function_app

        (function,) = function_app.app.get_functions()
        call = function.get_user_function()
        hints = typing.get_type_hints(call)
        call(timer=None)
        with azlatch.connect() as other, other.hold("nightly"):
            skipped = call(timer=None)
            role = other.inspect("nightly").holder.role
        print(json.dumps({
            "name": function.get_function_name(),
            "bindings": [binding.name for binding in function.get_bindings()],
            "parameters": list(inspect.signature(call).parameters),
            "hints": sorted(hints),
            "skipped": skipped,
            "role": role,
        }))
        """,
        FUNCTIONS,
    )
    assert facts == {
        "name": "nightly",
        "bindings": ["timer"],
        "parameters": ["timer"],
        "hints": ["return", "timer"],
        "skipped": None,
        "role": "shop/0a1b2c3d",
    }


def test_annotations_of_a_guarded_function_can_be_evaluated() -> None:
    """As the Functions worker does it, where annotations are texts: they are found, save that of `hold`."""

    @azlatch.guarded("job", url="memory:")
    def job(timer: func.TimerRequest, hold: azlatch.Hold) -> None: ...

    assert typing.get_type_hints(job) == {"timer": func.TimerRequest, "return": type(None)}


def test_guarded_above_a_trigger_is_refused() -> None:
    """There the host would call the function as it is, without the latch: UsageError, at import."""
    app = func.FunctionApp()
    with pytest.raises(azlatch.UsageError, match="right above the function"):

        @azlatch.guarded("job", url="memory:")
        @app.timer_trigger(schedule="0 * * * * *", arg_name="timer")
        def job(timer: func.TimerRequest) -> None: ...


def test_a_guarded_generator_is_refused() -> None:
    """Its body runs when the call is over and the latch is free again: UsageError, at import."""
    with pytest.raises(azlatch.UsageError, match="generator"):

        @azlatch.guarded("job", url="memory:")
        def order(context: object) -> typing.Iterator[int]:
            yield 1


def test_durable_functions(place: Place) -> None:
    """Orchestrator and activity index, the activity without `hold`; called, it has one."""
    (place.folder / "function_app.py").write_text(code_with("activity_trigger"), encoding="utf-8")
    facts = place.python(
        """
        import inspect, json
        import function_app

        functions = {each.get_function_name(): each for each in function_app.app.get_functions()}
        reserve = functions["reserve"].get_user_function()
        print(json.dumps([sorted(functions), list(inspect.signature(reserve).parameters), reserve("item-7")]))
        """,
        FUNCTIONS,
    )
    names, parameters, answer = facts
    assert (names, parameters) == (["order", "reserve"], ["item"])
    assert re.fullmatch(r"item-7 under fence \d+", answer)


def test_app_service(place: Place) -> None:
    """Eight threads of a web app come to the same latch: each gets its turn, with a fence of its own."""
    (place.folder / "app.py").write_text(code_with("def application"), encoding="utf-8")
    facts = place.python(
        """
        import json
        from concurrent.futures import ThreadPoolExecutor
        import app

        def get(_):
            return b"".join(app.application({}, lambda status, headers: None)).decode()

        with ThreadPoolExecutor(8) as threads:
            bodies = list(threads.map(get, range(8)))
        with app.latches.hold("report"):
            print(json.dumps([bodies, app.latches.inspect("report").holder.role]))
        app.latches.close()
        """,
        APP_SERVICE,
    )
    bodies, role = facts
    assert len({re.fullmatch(r"made under fence (\d+)", body)[1] for body in bodies}) == 8  # type: ignore[index]
    assert role == "shop/0a1b2c3d"


@pytest.mark.parametrize(
    ("section", "platform", "role"),
    [
        ("A Container Apps job", CONTAINER_APPS, "nightly-x7k2m"),
        ("A Kubernetes CronJob", KUBERNETES, "nightly-29000-abcde"),
    ],
)
def test_containers(section: str, platform: dict[str, str], role: str, place: Place) -> None:
    """The container's command runs the job under the latch, and `inspect` names the execution or the pod."""
    command = command_of(section)
    assert command[0] == "azlatch"
    assert command[-2:] == ["python", "nightly.py"]
    inspect = [*AZLATCH, "inspect", "nightly", "--json"]
    view = json.loads(place.run([*AZLATCH, *command[1:-2], *inspect], platform))
    assert (view["state"], view["holder"]["role"]) == ("held", role)
    assert view["fence"] > 0
    nested = [*AZLATCH, *command[1:-2], *AZLATCH, *command[1:-2], "true"]
    place.run(nested, platform, code=75)
