"""URLs and connection strings of Cosmos DB put into words; and nothing secret in them."""

from __future__ import annotations

import pytest

from azlatch.backends.cosmos import CosmosBackend
from azlatch.backends.cosmos_account import CosmosAccount, account_of, check_id, place_of
from azlatch.errors import UsageError
from azlatch.runtime.connect import backend_of

CANARY = "c2VjcmV0LWNhbmFyeQ=="
PUBLIC = "https://shop.documents.azure.com"
KEYED = f"AccountEndpoint={PUBLIC}:443/;AccountKey={CANARY};"
LOCAL = f"AccountEndpoint=http://127.0.0.1:4711/;AccountKey={CANARY};"


@pytest.mark.parametrize(
    ("url", "environment", "endpoint"),
    [
        ("cosmos://shop/d/c", {}, PUBLIC),
        ("cosmos://Shop/d/c", {}, PUBLIC),
        ("cosmos://shop.documents.azure.cn/d/c", {}, "https://shop.documents.azure.cn"),
        ("cosmos://shop/d/c", {"AZURE_COSMOS_CONNECTION_STRING": KEYED}, f"{PUBLIC}:443"),
        ("cosmos://shop/d/c", {"AZURE_COSMOS_CONNECTIONSTRING": KEYED}, f"{PUBLIC}:443"),
        ("cosmos://shop.documents.azure.com/d/c", {"AZURE_COSMOS_CONNECTION_STRING": KEYED}, f"{PUBLIC}:443"),
        ("cosmos://shop/d/c?connection=Shop", {"Shop": KEYED}, f"{PUBLIC}:443"),
        ("cosmos://shop/d/c?connection=Shop", {"Shop__accountEndpoint": f"{PUBLIC}/"}, PUBLIC),
        ("cosmos://localhost/d/c", {"AZURE_COSMOS_CONNECTION_STRING": LOCAL}, "http://127.0.0.1:4711"),
        ("cosmos://127.0.0.1/d/c", {"AZURE_COSMOS_CONNECTION_STRING": LOCAL}, "http://127.0.0.1:4711"),
        ("cosmos://localhost/d/c?connection=J", {"J": LOCAL}, "http://127.0.0.1:4711"),
    ],
)
def test_urls(url: str, environment: dict[str, str], endpoint: str) -> None:
    """Every way to name an account, and where it leads."""
    account, database, container = place_of(url, environment)
    assert (account.endpoint, database, container) == (endpoint, "d", "c")
    assert account.name == ("localhost" if "4711" in endpoint else "shop")
    assert CANARY not in repr(account)


def test_an_identity_may_be_named() -> None:
    """As Functions spell it."""
    variables = {"Shop__accountEndpoint": PUBLIC, "Shop__clientId": "id-1"}
    account, _, _ = place_of("cosmos://shop/d/c?connection=Shop", variables)
    assert account == CosmosAccount("shop", PUBLIC, client_id="id-1")


def test_names_are_decoded() -> None:
    """What a URL cannot carry as it is, percent-encoded."""
    assert place_of("cosmos://shop/my%20data/la%C3%A7os", {})[1:] == ("my data", "laços")


@pytest.mark.parametrize(
    ("url", "environment", "says"),
    [
        ("cosmos://shop", {}, "not complete"),
        ("cosmos://shop/d", {}, "not complete"),
        ("cosmos://shop/d/c/e", {}, "not complete"),
        ("cosmos:///d/c", {}, "not complete"),
        (f"cosmos://key:{CANARY}@shop/d/c", {}, "not complete"),
        (f"cosmos://shop/d/c#{CANARY}", {}, "not complete"),
        (f"cosmos://shop/d/c?AccountKey={CANARY}", {}, "option that is not connection="),
        (f"cosmos://shop/d/c?connection={KEYED}", {}, "not the name of a connection"),
        ("cosmos://shop/d/c?connection=None", {}, "'None' is not set"),
        ("cosmos://sh_op/d/c", {}, "account name"),
        ("cosmos://x/d/c", {}, "account name"),
        ("cosmos://-.a/d/c", {}, "no host name"),
        ("cosmos://[/d/c", {}, "cannot be read"),
        ("cosmos://shop:port/d/c", {}, "cannot be read"),
        ("cosmos://shop/a%2Fb/c", {}, "database name"),
        ("cosmos://shop/d/c%3F", {}, "container name"),
        ("cosmos://localhost/d/c", {}, "where the local Cosmos DB is"),
        ("cosmos://other/d/c", {"AZURE_COSMOS_CONNECTION_STRING": KEYED}, "'other'.*is of 'shop'"),
        ("cosmos://other/d/c?connection=J", {"J": LOCAL}, "'other'.*is of 'localhost'"),
        ("cosmos://shop/d/c?connection=J", {"J__accountEndpoint": "shop"}, "J__accountEndpoint is no URL"),
    ],
)
def test_what_is_wrong_is_said_and_not_repeated(url: str, environment: dict[str, str], says: str) -> None:
    """Each with its cure; what may be secret is left out."""
    with pytest.raises(UsageError, match=says) as caught:
        place_of(url, environment)
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None or CANARY not in str(caught.value.__cause__)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{PUBLIC};{CANARY}", "a part without '='"),
        (f"AccountKey={CANARY}", "no AccountEndpoint"),
        (f"AccountEndpoint={PUBLIC}", "no AccountKey"),
        (f"AccountEndpoint={PUBLIC};AccountKey={CANARY}!", "no Base64"),
        (f"AccountEndpoint=shop;AccountKey={CANARY}", "no URL"),
    ],
)
def test_connection_strings(text: str, says: str) -> None:
    """What is missing is named; the key is not."""
    with pytest.raises(UsageError, match=says) as caught:
        account_of(text)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("name", ["", "a/b", "a\\b", "a#", "a?", "a ", "x" * 256, "a\nb"])
def test_ids(name: str) -> None:
    """Of databases and containers, as the service has it."""
    with pytest.raises(UsageError, match="the container name"):
        check_id("container", name)
    with pytest.raises(UsageError):
        CosmosBackend.from_connection_string(KEYED, "d", name)


def test_a_url_makes_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The backend of a URL connects when it is opened, and not before."""
    monkeypatch.setenv("AZURE_COSMOS_CONNECTION_STRING", KEYED)
    assert isinstance(backend_of("cosmos://shop/d/c"), CosmosBackend)
