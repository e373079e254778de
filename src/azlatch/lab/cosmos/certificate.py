"""A certificate that the lab makes for itself: for https on the loopback interface."""

from __future__ import annotations

import ssl

from azlatch.errors import BackendMisconfigured


def make() -> tuple[ssl.SSLContext, bytes]:
    """What serves https, and the certificate (PEM) that a client has to trust.

    The SDK trusts any for localhost and 127.0.0.1. The keys are new each time and are kept nowhere.

    Raises:
        BackendMisconfigured: the package trustme is missing.
    """
    try:
        import trustme
    except ModuleNotFoundError as missing:
        if missing.name != "trustme":
            raise
        raise BackendMisconfigured("https in the lab needs trustme: pip install 'azlatch[lab]'") from None
    authority = trustme.CA(organization_name="azlatch lab")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1", "::1").configure_cert(context)
    return context, authority.cert_pem.bytes()
