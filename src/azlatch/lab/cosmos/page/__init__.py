"""The lab's page: what is in the local Cosmos DB, in a browser, while it serves.

from azlatch.lab.cosmos import CosmosLab
from azlatch.lab.cosmos.page import LabPage

with CosmosLab() as lab, LabPage(lab) as page:
    print(page.url)

It has a port and a thread of its own. What it shows is read on the lab's thread, between two requests and
in small pieces; what is made of it is made on its own. Where nobody looks, it costs nothing.

Who may look: the address that is printed has a key, which is exchanged for a cookie; a key after a "#" would
not reach the server without JavaScript. The key is none of the lab's other keys, and new with every start:
what stays in the history of a browser opens nothing but this page, and not for long. See `guard`.

Everything on it came from outside, item ids and bodies first of all: templates escape by themselves, what is
not printable is shown as its code point, and the Content-Security-Policy lets nothing run that did not come
from here. It works without JavaScript; with it, it keeps itself up to date.
"""

from __future__ import annotations

from azlatch.lab.cosmos.page.server import LabPage

__all__ = ["LabPage"]
