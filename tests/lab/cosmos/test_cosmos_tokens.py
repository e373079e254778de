"""Resource tokens and Entra ID tokens through the real SDK, with the lab's own account."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator

import pytest
from azure.core.credentials import AccessToken
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos import exceptions as sdk

from azlatch.lab.cosmos.lab import CosmosLab


@pytest.fixture(scope="module")
def shop() -> Iterator[CosmosLab]:
    """A lab with an item in `shop/orders`."""
    with CosmosLab(aad=True) as lab, CosmosClient(lab.endpoint, lab.key) as client:
        database = client.create_database("shop")
        orders = database.create_container("orders", PartitionKey("/customer"))
        orders.create_item({"id": "1", "customer": "a"})
        database.create_user({"id": "reader"})
        yield lab


@pytest.mark.parametrize("spelled", ["by names", "by resource ids"])
@pytest.mark.parametrize("mode", ["Read", "All"])
def test_a_resource_token(shop: CosmosLab, mode: str, spelled: str) -> None:
    """Its bearer reads the container's items, and writes them if it may; it has nothing else."""
    with CosmosClient(shop.endpoint, shop.key) as client:
        database = client.get_database_client("shop")
        orders = database.get_container_client("orders")
        link = orders.container_link if spelled == "by names" else orders.read()["_self"]
        user = database.get_user_client("reader")
        permission = user.upsert_permission({"id": "p", "permissionMode": mode, "resource": link})
        token = permission.properties["_token"]
    with CosmosClient(shop.endpoint, {"dbs/shop/colls/orders": token}) as bearer:
        mine = bearer.get_database_client("shop").get_container_client("orders")
        assert mine.read_item("1", "a")["customer"] == "a"
        if mode == "All":
            assert mine.upsert_item({"id": spelled, "customer": "b"})["id"] == spelled
        else:
            with pytest.raises(sdk.CosmosHttpResponseError) as caught:
                mine.upsert_item({"id": spelled, "customer": "b"})
            assert caught.value.status_code == 403
        with pytest.raises(sdk.CosmosHttpResponseError) as caught:
            bearer.get_database_client("shop").read(headers={"authorization": token})
        assert caught.value.status_code in (401, 403)


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_an_entra_token(shop: CosmosLab) -> None:
    """An unsigned token of a credential is enough where the lab was started for it."""
    expires = int(time.time()) + 600
    parts = [{"alg": "none"}, {"exp": expires, "oid": "me"}]
    coded = [base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts]

    class Credential:
        def get_token(self, *scopes: str, **options: object) -> AccessToken:
            return AccessToken(".".join([*coded, "c2ln"]), expires)

    def read(lab: CosmosLab) -> str:
        # The policy of azure-core sends tokens over https alone.
        with CosmosClient(lab.endpoint, Credential()) as client:
            return client.get_database_client("shop").read()["id"]

    with CosmosLab(aad=True, tls=True) as lab:
        with CosmosClient(lab.endpoint, lab.key) as client:
            client.create_database("shop")
        assert read(lab) == "shop"
    with CosmosLab(tls=True) as strict, pytest.raises(sdk.CosmosHttpResponseError) as caught:
        read(strict)
    assert caught.value.status_code == 401
