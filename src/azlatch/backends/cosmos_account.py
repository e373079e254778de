"""Which account of Cosmos DB, database and container: URLs, connection strings, environment variables. No I/O.

The database and the container come from the URL, the account's endpoint and its key from a connection string
where one is set; else an identity signs in. Nothing secret is in a message: not even a broken connection
string.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from azlatch.errors import BackendMisconfigured, UsageError

if TYPE_CHECKING:
    from azure.cosmos import CosmosClient

#: Where a connection string is looked for; the second as Service Connector spells it.
VARIABLES = ("AZURE_COSMOS_CONNECTION_STRING", "AZURE_COSMOS_CONNECTIONSTRING")
#: What the account of a local service is called.
LOCAL = "localhost"
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_ACCOUNT = re.compile(r"[a-z0-9][a-z0-9-]{1,48}[a-z0-9]")
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?")
_VARIABLE = re.compile(r"[A-Za-z0-9_.:-]{1,80}")
#: What the service allows as the id of a database or container.
_ID = re.compile(r"[^/\\#?\x00-\x1f]{1,255}(?<! )")


@dataclass(frozen=True)
class CosmosAccount:
    """An account's endpoint and how to sign in there: a key, else an identity."""

    name: str
    endpoint: str
    key: str = field(default="", repr=False)
    client_id: str = ""

    def client(self) -> CosmosClient:
        """A client with connections of its own. Making one asks the account what it is.

        Raises:
            BackendMisconfigured: azure-cosmos is not installed.
        """
        try:
            from azure.cosmos import CosmosClient
        except ImportError as error:
            raise BackendMisconfigured(
                f"the Cosmos DB store needs {error.name}: pip install 'azlatch[cosmos]'"
            ) from None
        from azlatch.backends.cosmos_client import transport

        # Zero means the default here, and only less than that means none.
        off: dict[str, Any] = {
            "retry_total": 0,
            "retry_throttle_total": -1,
            "retry_connect": 0,
            "retry_read": 0,
        }
        return CosmosClient(
            self.endpoint, self._credential(), transport=transport(), user_agent_suffix="azlatch", **off
        )

    def _credential(self) -> Any:
        if self.key:
            return self.key
        try:
            from azure.identity import DefaultAzureCredential
        except ImportError:
            raise BackendMisconfigured(
                "signing in with an identity needs azure-identity: pip install 'azlatch[cosmos]'"
            ) from None
        return DefaultAzureCredential(managed_identity_client_id=self.client_id or None)


def place_of(url: str, environment: Mapping[str, str]) -> tuple[CosmosAccount, str, str]:
    """The account, the database and the container of ``cosmos://ACCOUNT/DATABASE/CONTAINER[?connection=NAME]``.

    Raises:
        UsageError: it is no such URL, what it refers to is not set, or a connection string that is set names
            another account.
    """
    parts = _split(url)
    host, path = parts.netloc.lower(), parts.path.strip("/").split("/")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = set(options) - {"connection"}
    if not host or "@" in host or len(path) != 2 or not all(path) or parts.fragment or unknown:
        # Not which: it may be a key that was pasted here.
        what = "has an option that is not connection=" if unknown else "is not complete"
        raise UsageError(
            f"the cosmos URL {what}: use cosmos://ACCOUNT/DATABASE/CONTAINER, with ?connection=NAME for a "
            "connection that environment variables of that name describe; keys do not belong in it"
        )
    database, container = (check_id(what, unquote(each)) for what, each in zip(_PARTS, path, strict=True))
    named = options.get("connection")
    account = _named(named, environment) if named is not None else _from_variables(environment)
    if account is None:
        account = _plain(host)
    wanted = host.split(":")[0].split(".")[0] if host.split(":")[0] not in _LOCAL_HOSTS else LOCAL
    if account.name != wanted:
        source = f"the connection {named!r}" if named is not None else "the connection string that is set"
        raise UsageError(
            f"the URL names the account {wanted!r} and {source} is of {account.name!r}: change one of them"
        )
    return account, database, container


_PARTS = ("database", "container")


def account_of(connection_string: str) -> CosmosAccount:
    """The account of a connection string.

    Raises:
        UsageError: it is not one; what is missing is named, its content is not.
    """
    parts: dict[str, str] = {}
    for piece in connection_string.strip().split(";"):
        key, equals, value = piece.partition("=")
        if piece.strip() and not equals:
            raise UsageError(
                "the Cosmos DB connection string has a part without '=': copy it whole from the account's keys"
            )
        parts[key.strip().lower()] = value.strip()
    endpoint, key = parts.get("accountendpoint", "").rstrip("/"), parts.get("accountkey", "")
    if not endpoint or not key:
        missing = "AccountEndpoint" if not endpoint else "AccountKey"
        raise UsageError(
            f"the Cosmos DB connection string has no {missing}: copy it whole from the account's keys"
        )
    try:
        base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(
            "the AccountKey of the Cosmos DB connection string is no Base64: copy it whole from the account's "
            "keys"
        ) from None
    return CosmosAccount(_account_in(endpoint, "the Cosmos DB connection string"), endpoint, key)


def check_id(what: str, name: str) -> str:
    """Returns the id of a database or a container, if it is one.

    Raises:
        UsageError: the service does not allow it.
    """
    if not _ID.fullmatch(name):
        raise UsageError(
            f"the {what} name {name[:80]!r} is not one: 1 to 255 characters without / \\ # ? and control "
            "characters, and no space at the end"
        )
    return name


def _from_variables(environment: Mapping[str, str]) -> CosmosAccount | None:
    for variable in VARIABLES:
        if environment.get(variable):
            return account_of(environment[variable])
    return None


def _named(name: str, environment: Mapping[str, str]) -> CosmosAccount:
    """A connection as Functions name them: NAME, else NAME__accountEndpoint."""
    if not _VARIABLE.fullmatch(name):
        # It may be the connection string itself, and is not repeated.
        raise UsageError(
            "?connection= is not the name of a connection: give it a name such as CosmosConnection, and put "
            "the connection string into the environment variable of that name"
        )
    if environment.get(name):
        return account_of(environment[name])
    endpoint = environment.get(f"{name}__accountEndpoint", "").rstrip("/")
    if endpoint:
        account = _account_in(endpoint, f"{name}__accountEndpoint")
        return CosmosAccount(account, endpoint, client_id=environment.get(f"{name}__clientId", ""))
    raise UsageError(
        f"the connection {name[:80]!r} is not set: set {name[:80]} to a connection string, or "
        f"{name[:80]}__accountEndpoint to the endpoint for an identity"
    )


def _plain(host: str) -> CosmosAccount:
    if host.split(":")[0] in _LOCAL_HOSTS:
        raise UsageError(
            "no connection string is set that says where the local Cosmos DB is: set "
            "AZURE_COSMOS_CONNECTION_STRING, or run the command under `azlatch lab exec cosmos --`, which sets "
            "it"
        )
    if "." in host or ":" in host:
        if not _HOST.fullmatch(host):
            raise UsageError(f"{host[:80]!r} is no host name: use cosmos://ACCOUNT/DATABASE/CONTAINER")
        return CosmosAccount(host.split(".")[0].split(":")[0], f"https://{host}")
    if not _ACCOUNT.fullmatch(host):
        raise UsageError(
            f"the account name {host[:80]!r} is not one: 3 to 50 lower-case letters, digits and hyphens, or a "
            "full host name"
        )
    return CosmosAccount(host, f"https://{host}.documents.azure.com")


def _account_in(endpoint: str, source: str) -> str:
    """The account of an endpoint: the first label of its host."""
    parts = _split(endpoint)
    host = (parts.hostname or "").lower()
    if parts.scheme not in ("https", "http") or not host or "@" in parts.netloc:
        raise UsageError(f"the endpoint in {source} is no URL: use https://ACCOUNT.documents.azure.com")
    return LOCAL if host in _LOCAL_HOSTS else host.split(".")[0]


def _split(url: str) -> SplitResult:
    """The parts of a URL. Raises UsageError, without repeating it, where it has none."""
    try:
        parts = urlsplit(url)
        _ = parts.port
        return parts
    except ValueError:
        raise UsageError("a URL of the Cosmos DB account cannot be read: its host is no host name") from None
