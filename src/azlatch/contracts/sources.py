"""Where the meanings in the table come from."""

from __future__ import annotations

SOURCES = {
    "R": "azure-sdk-for-rust, sdk/cosmos/azure_data_cosmos_driver/src/error/cosmos_status.rs",
    "RR": "azure-sdk-for-rust, sdk/cosmos/azure_data_cosmos_driver/docs/ErrorCodesAndRetries.md",
    "J": "azure-sdk-for-java, sdk/cosmos/azure-cosmos/docs/StatusCodes.md",
    "P": "azure-cosmos 4.17.1 for Python, azure/cosmos/ (http_constants.py, exceptions.py)",
    "L": "learn.microsoft.com, HTTP status codes for Azure Cosmos DB and its troubleshooting pages",
    "N": "azure-cosmos-dotnet-v3, CosmosItemTests.cs of its emulator tests",
    "M": "measured with azure-cosmos 4.17.1 for Python on a local server",
    "C": "azure-core for Python, azure/core/exceptions.py",
    "H": "HTTP itself, RFC 9110",
}


def spelled_out(keys: str) -> str:
    """The references behind the keys of a row."""
    return "; ".join(f"{key}: {SOURCES[key]}" for key in keys.split())
