"""Which storage account, and with what credential: from a URL, a connection string, and the environment.

Pure until a client is made. No message here repeats a connection string, a key or a signature.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from azlatch.errors import BackendMisconfigured, UsageError

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

#: The account of the emulators, and its key, which is public.
EMULATOR = "devstoreaccount1"
EMULATOR_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_EMULATOR_PORT = 10_000

#: Where a connection string is looked for; the second as Service Connector spells it.
VARIABLES = ("AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGEBLOB_CONNECTIONSTRING")

_CONTAINER = re.compile(r"(?!.*--)[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_VARIABLE = re.compile(r"[A-Za-z0-9_.:-]{1,80}")
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?")
#: Connections that a client keeps open; as many as calls are made at a time.
_CONNECTIONS = 64


@dataclass(frozen=True)
class StorageAccount:
    """An account's Blob endpoint and how to sign in there: a key, a signature (SAS), else an identity."""

    name: str
    endpoint: str = field(repr=False)  # it may carry a signature, where a connection string has it there
    key: str = field(default="", repr=False)
    signature: str = field(default="", repr=False)
    client_id: str = ""

    def container(self, name: str) -> ContainerClient:
        """A client of a container, with connections of its own. Makes no request.

        Raises:
            BackendMisconfigured: azure-storage-blob is not installed.
        """
        try:
            from azure.core.pipeline.transport import RequestsTransport
            from azure.storage.blob import ContainerClient
        except ImportError as error:
            raise BackendMisconfigured(
                f"the Blob store needs {error.name}: pip install 'azlatch[blob]'"
            ) from None
        import requests
        from requests.adapters import HTTPAdapter
        from requests.utils import get_environ_proxies

        session = requests.Session()
        # The environment's proxies and certificates, asked for once: for each request it costs a tenth of it.
        session.trust_env = False
        session.proxies = get_environ_proxies(self.endpoint, no_proxy=None)
        bundle = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True
        for scheme in ("https://", "http://"):
            session.mount(scheme, HTTPAdapter(pool_connections=4, pool_maxsize=_CONNECTIONS, max_retries=0))
        transport: Any = RequestsTransport(session=session, session_owner=True, connection_verify=bundle)
        return ContainerClient(
            self.endpoint, name, credential=self._credential(), transport=transport, retry_total=0
        )

    def _credential(self) -> Any:
        if self.key:
            return {"account_name": self.name, "account_key": self.key}
        if self.signature:
            return self.signature
        try:
            from azure.identity import DefaultAzureCredential
        except ImportError:
            raise BackendMisconfigured(
                "signing in with an identity needs azure-identity: pip install 'azlatch[blob]'"
            ) from None
        return DefaultAzureCredential(managed_identity_client_id=self.client_id or None)


def container_of(url: str, environment: Mapping[str, str]) -> tuple[StorageAccount, str]:
    """The account and the container of ``blob://ACCOUNT/CONTAINER[?connection=NAME]``.

    Raises:
        UsageError: it is no such URL, what it refers to is not set, or a connection string that is set names
            another account.
    """
    parts = _split(url)
    host, container = parts.netloc, unquote(parts.path.strip("/"))
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = set(options) - {"connection"}
    if not host or "@" in host or not container or parts.fragment or unknown:
        # Not which: it may be a signature that was pasted here.
        what = "has an option that is not connection=" if unknown else "is not complete"
        raise UsageError(
            f"the blob URL {what}: use blob://ACCOUNT/CONTAINER, with ?connection=NAME for a connection that "
            "environment variables of that name describe; keys and signatures do not belong in it"
        )
    check_container(container)
    named = options.get("connection")
    account = _named(named, environment) if named is not None else _from_variables(environment)
    if account is None:
        account = _emulator() if host == EMULATOR else _plain(host)
    wanted = host.split(":")[0].split(".")[0]
    if account.name != wanted:
        source = f"the connection {named!r}" if named is not None else "the connection string that is set"
        raise UsageError(
            f"the URL names the account {wanted!r} and {source} is of {account.name!r}: change one of them"
        )
    return account, container


def account_of(connection_string: str) -> StorageAccount:
    """The account of a connection string.

    Raises:
        UsageError: it is not one; what is missing is named, its content is not.
    """
    parts: dict[str, str] = {}
    for piece in connection_string.strip().split(";"):
        key, equals, value = piece.partition("=")
        if piece.strip() and not equals:
            raise UsageError(
                "the storage connection string has a part without '=': copy it whole from the account's keys"
            )
        parts[key.strip().lower()] = value.strip()
    if parts.get("usedevelopmentstorage", "").lower() == "true":
        return _emulator()
    name, key, signature = (
        parts.get(each, "") for each in ("accountname", "accountkey", "sharedaccesssignature")
    )
    endpoint = parts.get("blobendpoint", "").rstrip("/")
    if not endpoint and name:
        scheme = parts.get("defaultendpointsprotocol", "https")
        endpoint = f"{scheme}://{name}.blob.{parts.get('endpointsuffix', 'core.windows.net')}"
    if not endpoint or not (key or signature):
        missing = "AccountName or BlobEndpoint" if not endpoint else "AccountKey or SharedAccessSignature"
        raise UsageError(
            f"the storage connection string has no {missing}: copy it whole from the account's access keys"
        )
    return StorageAccount(name or _account_in(endpoint), endpoint, key, signature.lstrip("?"))


def check_container(name: str) -> str:
    """Returns the name of a container, if it is one.

    Raises:
        UsageError: the service does not allow it.
    """
    if not _CONTAINER.fullmatch(name):
        raise UsageError(
            f"the container name {name[:80]!r} is not one: 3 to 63 lower-case letters, digits and single "
            "hyphens, with a letter or digit at both ends"
        )
    return name


def _from_variables(environment: Mapping[str, str]) -> StorageAccount | None:
    for variable in VARIABLES:
        if environment.get(variable):
            return account_of(environment[variable])
    return None


def _named(name: str, environment: Mapping[str, str]) -> StorageAccount:
    """A connection as Functions name them: NAME, else NAME__blobServiceUri or NAME__accountName."""
    if not _VARIABLE.fullmatch(name):
        # It may be the connection string itself, and is not repeated.
        raise UsageError(
            "?connection= is not the name of a connection: give it a name such as AzureWebJobsStorage, and put "
            "the connection string into the environment variable of that name"
        )
    if environment.get(name):
        return account_of(environment[name])
    client_id = environment.get(f"{name}__clientId", "")
    endpoint = environment.get(f"{name}__blobServiceUri", "").rstrip("/")
    if endpoint:
        if not _split(endpoint).netloc:
            raise UsageError(f"{name}__blobServiceUri is no URL: give it https://ACCOUNT.blob.core.windows.net")
        return StorageAccount(_account_in(endpoint), endpoint, client_id=client_id)
    account = environment.get(f"{name}__accountName", "")
    if account:
        return StorageAccount(account, f"https://{account}.blob.core.windows.net", client_id=client_id)
    raise UsageError(
        f"the connection {name[:80]!r} is not set: set {name[:80]} to a connection string, or "
        f"{name[:80]}__blobServiceUri to the endpoint for an identity"
    )


def _emulator() -> StorageAccount:
    return StorageAccount(EMULATOR, f"http://127.0.0.1:{_EMULATOR_PORT}/{EMULATOR}", EMULATOR_KEY)


def _plain(host: str) -> StorageAccount:
    if "." in host or ":" in host:
        if not _HOST.fullmatch(host):
            raise UsageError(f"{host[:80]!r} is no host name: use blob://ACCOUNT/CONTAINER")
        return StorageAccount(host.split(".")[0], f"https://{host}")
    if not _ACCOUNT.fullmatch(host):
        raise UsageError(
            f"the account name {host[:80]!r} is not one: 3 to 24 lower-case letters and digits, or a "
            "full host name"
        )
    return StorageAccount(host, f"https://{host}.blob.core.windows.net")


def _account_in(endpoint: str) -> str:
    """The account of an endpoint: the first label of its host, or the first part of the path of an emulator."""
    parts = _split(endpoint)
    host = parts.hostname or ""
    path = parts.path.strip("/")
    if path and not host.endswith((".net", ".com", ".cn", ".us", ".de")):
        return path.split("/")[0]
    return host.split(".")[0]


def _split(url: str) -> SplitResult:
    """The parts of a URL. Raises UsageError, without repeating it, where it has none."""
    try:
        return urlsplit(url)
    except ValueError:
        raise UsageError("a URL of the storage account cannot be read: its host is no host name") from None
