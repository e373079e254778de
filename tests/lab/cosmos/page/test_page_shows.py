"""What the page shows: all that is there, page by page, and what came from outside as text and nothing else."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote

import pytest
import requests
from cosmos_clients import PATIENCE

from azlatch.lab.cosmos import CosmosLab
from azlatch.lab.cosmos.clock import LabClock
from azlatch.lab.cosmos.page import LabPage, looking
from azlatch.lab.cosmos.page.render import MOST_SHOWN, pretty, shown
from azlatch.lab.cosmos.wire import Reply, Request

START = 1_790_000_000.0
#: What ids, keys, names and bodies may have in them, and a page and a terminal must not take for their own.
NASTY = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</pre></title><svg onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;&#x3c;",
    "javascript:alert(1)",
    "\x1b[2J\x1b]0;title\x07",
    "\u202egnp.exe\u2066",
    "\u2028\u2029\x85\x9b31m\x7f\x00",
    "\ufeff\u200b\u00ad",
]
_UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


class Tags(HTMLParser):
    """Collects what a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action")]


Get = Callable[[str], str]


@pytest.fixture
def lab() -> Iterator[CosmosLab]:
    """Two regions, a clock that stands still, and a container `d/c` with the partition key /pk."""
    clock = LabClock(manual=True, start=START)
    with CosmosLab(regions=("West US", "East US"), clock=clock) as running:
        send(running, "POST", "/dbs", {"id": "d"})
        make(running, "c")
        yield running


@pytest.fixture
def get(lab: CosmosLab) -> Iterator[Get]:
    """The text of a page."""
    with LabPage(lab) as page, requests.Session() as session:
        session.get(page.url, timeout=PATIENCE)

        def text_of(what: str, status: int = 200) -> str:
            reply = session.get(page.address + what, timeout=PATIENCE)
            assert reply.status_code == status, reply.text
            return reply.text

        yield text_of


def send(lab: CosmosLab, method: str, path: str, body: Any = None, **headers: str) -> Reply:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    request = Request(method, path, given, b"" if body is None else json.dumps(body).encode())
    return lab.call(lambda: lab.account.handle(request, lab.clock.now()))


def make(lab: CosmosLab, name: str, **definition: Any) -> None:
    body = {"id": name, "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}, **definition}
    assert send(lab, "POST", "/dbs/d/colls", body, x_ms_offer_throughput="18000").status == 201


def create(lab: CosmosLab, item: dict[str, Any], container: str = "c") -> None:
    key = json.dumps([item["pk"]])
    path = f"/dbs/d/colls/{quote(container)}/docs"
    assert send(lab, "POST", path, item, x_ms_documentdb_partitionkey=key).status == 201


def ids(text: str) -> list[str]:
    """The items that a page of a list shows."""
    return [html.unescape(each) for each in re.findall(r'<th scope="row" class="cut"><a [^>]*>([^<]*)<', text)]


def followed(text: str) -> str:
    """Where the next page is, "" after the last."""
    found = re.search(r'<a rel="next" href="/([^"]*)"', text)
    return html.unescape(found[1]) if found else ""


def check(text: str) -> None:
    """A page has no tag, attribute or address that its templates do not have, and nothing that is unseen."""
    tags = Tags()
    tags.feed(text)
    assert not tags.names & {"img", "iframe", "object", "b"}
    assert not {each for each in tags.attributes if each.startswith("on")}
    assert all(each.startswith(("/", "#")) for each in tags.links)
    assert text.count("<script") == text.count('<script src="/static/page.js" defer>') <= 1
    assert not _UNSEEN.search(text)


def test_what_came_from_outside_is_text(lab: CosmosLab, get: Get) -> None:
    """Ids, keys, bodies, containers, rules, and what is asked for, on every page that shows them."""
    allowed = [each for each in NASTY if not set(each) & set("/\\?#")]
    make(lab, "<b>&'\"")
    for number, text in enumerate(NASTY):
        create(
            lab, {"id": f"{number} {text.translate(dict.fromkeys(map(ord, '/?#')))}", "pk": text, text: [text]}
        )
    for each in (f"status=503 name={json.dumps(text)}" for text in allowed if not set(text) & set("\"'")):
        lab.add_rule(each)
    asked = quote(NASTY[1], safe="")
    pages = ["", "container?path=d/c", "container?path=" + quote("d/<b>&'\""), "faults", "requests"]
    pages += [f"requests?container={asked}&status={asked}"]
    listed = []
    for each in json.loads(send(lab, "GET", "/dbs/d/colls/c/pkranges").body)["PartitionKeyRanges"]:
        text = get(f"items?path=d/c&range={each['id']}")
        check(text)
        listed += ids(text)
    assert len(listed) == len(NASTY)
    for number in range(1, len(NASTY) + 1):
        text = get(f"item?path=d/c&number={number}")
        check(text)
        if number == 1:
            assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    for each in pages:
        check(get(each))
    for each in ("container", "items", "item"):
        check(get(f"{each}?path={asked}&number=1&key={asked}&id={asked}", 404))
    assert "\\u202egnp.exe\\u2066" in "".join(listed)
    assert "\\u001b[2J" in "".join(listed)


@pytest.mark.parametrize("number", [10, 149, 150, 151])
def test_every_item_is_on_one_page(lab: CosmosLab, get: Get, number: int) -> None:
    """A range is read page by page; what was deleted is not there, and no page is empty."""
    make(lab, "one")
    lab.call(lambda: lab.account.admin.lay_out("d/one", 1))
    for each in range(number):
        create(lab, {"id": f"i{each}", "pk": f"k{each % 7}"}, "one")
    send(lab, "DELETE", "/dbs/d/colls/one/docs/i3", None, x_ms_documentdb_partitionkey='["k3"]')
    seen, address, pages = [], "items?path=d/one", 0
    while address:
        text = get(address)
        seen += ids(text)
        address, pages = followed(text), pages + 1
    assert seen == [f"i{each}" for each in range(number) if each != 3]
    assert pages == math.ceil((number - 1) / 50)


def test_a_page_visits_no_more_than_its_share(lab: CosmosLab, get: Get) -> None:
    """Of very many that have gone, some are passed over on each page; the next one goes on."""
    make(lab, "one")
    lab.call(lambda: lab.account.admin.lay_out("d/one", 1))
    lab.call(lambda: lab.account.admin.pause("West US", "East US"))
    for each in range(looking.VISITED + 20):
        create(lab, {"id": f"i{each}", "pk": "k"}, "one")
        if each < looking.VISITED + 10:
            path = f"/dbs/d/colls/one/docs/i{each}"
            assert send(lab, "DELETE", path, None, x_ms_documentdb_partitionkey='["k"]').status == 204
    first = get("items?path=d/one")
    assert ids(first) == []
    assert ids(get(followed(first))) == [f"i{looking.VISITED + 10 + each}" for each in range(10)]


def test_one_item_is_found(lab: CosmosLab, get: Get) -> None:
    """By key and id; with its body, and with what each region has of it while one lags."""
    lab.call(lambda: lab.account.admin.lag("West US", "East US", 60))
    create(lab, {"id": "a/b".replace("/", "-"), "pk": "x", "text": "é ☃", "number": 1e300})
    text = get("items?path=d/c&key=" + quote('["x"]') + "&id=a-b")
    assert "<h1>a-b</h1>" in text
    assert "é ☃" in text
    assert "not there yet" in text
    lab.clock.advance(61)
    assert "not there yet" not in get("items?path=d/c&key=" + quote('["x"]') + "&id=a-b")
    for key, name, says in (('["x"]', "b", "there is no item"), ("[1", "b", "the key"), ("", "a-b", "the key")):
        assert says in html.unescape(get(f"items?path=d/c&key={quote(key)}&id={name}", 404))


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("container?path=d/none", "there is no container 'd/none'"),
        ("container", "there is no container ''"),
        ("items?path=d/c&range=99", "there is no range '99' any more"),
        ("items?path=d/c&after=x", "after is 'x': give it a whole number"),
        ("items?path=d/c&after=9999999999999999", "at most 15 digits"),
        ("item?path=d/c&number=77", "there is no item 77"),
        ("item?path=d/c&number=-5", "there is no item -5"),
        ("item?path=d/c", "number is ''"),
    ],
)
def test_what_is_not_there(get: Get, what: str, says: str) -> None:
    """404, and a page that says what is not there."""
    assert says in html.unescape(get(what, 404))


def test_regions_and_their_lag(lab: CosmosLab, get: Get) -> None:
    """Who writes, who is offline, what each lacks and since when, and the lag of each way."""
    text = get("")
    assert text.count(">online<") == 2
    assert ">–<" in text
    lab.call(lambda: lab.account.admin.lag("West US", "East US", 300))
    create(lab, {"id": "a", "pk": "x"})
    create(lab, {"id": "b", "pk": "y"})
    lab.clock.advance(30)
    text = get("")
    assert '<td class="n warn">2</td><td class="n">30.0 s</td>' in text
    assert '<td class="n warn">5.0 min</td>' in text
    lab.call(lambda: (lab.account.admin.pause("East US", "West US"), lab.account.admin.offline("East US")))
    text = get("")
    assert ">offline<" in text
    assert ">held up<" in text
    assert "1 for 30.0 s" in get("container?path=d/c")


def test_the_load_of_containers_and_ranges(lab: CosmosLab, get: Get) -> None:
    """RU/s are the mean of ten seconds, throttled requests those of a minute, by container and by range."""
    body = {"id": "small", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}}
    send(lab, "POST", "/dbs/d/colls", body)
    sent = [
        send(
            lab,
            "POST",
            "/dbs/d/colls/small/docs",
            {"id": str(n), "pk": "k"},
            x_ms_documentdb_partitionkey='["k"]',
        )
        for n in range(100)
    ]
    throttled = sum(each.status == 429 for each in sent)
    units = sum(float(each.headers["x-ms-request-charge"]) for each in sent)
    assert throttled > 10
    for text in (get(""), get("container?path=d/small")):
        assert f">{units / 10:,.1f}<" in text
        assert f'<td class="n warn">{throttled}</td>' in text
    lab.clock.advance(30)
    text = get("container?path=d/small")
    assert f'<td class="n">0.0</td><td class="n warn">{throttled}</td>' in text
    assert f"{throttled} answered with 429</title>" in text
    lab.clock.advance(600)
    assert "answered with 429</title>" not in get("container?path=d/small")


def test_requests_are_the_newest_and_those_that_are_wanted(lab: CosmosLab, get: Get) -> None:
    """The newest first, by container and by status; looking at the page is no request."""
    before = lab.call(lambda: len(lab.account.ledger))
    for number in range(120):
        create(lab, {"id": str(number), "pk": "x"})
    send(lab, "GET", "/dbs/d/colls/c/docs/none", None, x_ms_documentdb_partitionkey='["x"]')

    def numbers(what: str) -> list[int]:
        return [int(each) for each in re.findall(r'<tr>\s*<td class="n">(\d+)</td>', get(what))]

    last = before + 121
    assert numbers("requests") == list(range(last, last - 100, -1))
    assert numbers("requests?status=404") == numbers("requests?status=4xx&container=d/c") == [last]
    assert numbers("requests?status=failed") == [last]
    assert numbers("requests?status=201&container=d/c")[0] == last - 1
    assert numbers("requests?container=d/none") == numbers("requests?status=5xx") == []
    assert lab.call(lambda: len(lab.account.ledger)) == last


def test_very_much_is_cut(lab: CosmosLab, get: Get) -> None:
    """A body of a megabyte, a thousand ranges, hundreds of containers and rules: pages stay readable, and say
    what they leave out."""
    create(lab, {"id": "long", "pk": "x", "text": "x" * 1_000_000})
    text = get("item?path=d/c&number=1")
    assert len(text) < MOST_SHOWN + 20_000
    assert "more characters" in text
    make(lab, "wide")
    lab.call(lambda: lab.account.admin.lay_out("d/wide", 1_000))
    text = get("container?path=d/wide")
    assert len(text) < 300_000
    assert "there are 800 more" in text
    for number in range(250):
        lab.add_rule(f"reset name=r{number}")
        make(lab, f"more{number}")
    assert "50 more are not shown" in get("faults")
    assert f"The first {looking.MOST_ROWS} of 252." in get("")


def test_a_container_that_is_deleted_on_the_way_is_left_out(
    lab: CosmosLab, get: Get, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two looks anything may happen: the rest is shown."""
    make(lab, "gone")
    listed = looking.containers

    def then_deleted(account: Any) -> Any:
        found = listed(account)
        account.handle(Request("DELETE", "/dbs/d/colls/gone", {}), account.now)
        return found

    monkeypatch.setattr(looking, "containers", then_deleted)
    text = get("")
    assert ("d/c" in text, "d/gone" in text) == (True, False)


def test_what_is_not_printable_is_its_code_point() -> None:
    """In texts all of it; in bodies line ends stay. What is no JSON is shown as it is."""
    assert shown("a\x1b[1m\u202e b\n") == "a\\u001b[1m\\u202e b\\u000a"
    seen = html.unescape(pretty(b'{"a":[1.50,"\\u001b"]}'))
    assert seen == '{\n  "a": [\n    1.50,\n    "\\u001b"\n  ]\n}'
    assert pretty("{\u202e<".encode()) == "{\\u202e&lt;"
    assert len(pretty(b"[" * 100_000)) == 100_000
