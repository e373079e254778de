"""The lab's page as people see it: in a real Chromium, with and without JavaScript.

AZLATCH_SCREENSHOTS=1 draws the pictures of the documentation anew; without it nothing is written.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from azlatch.lab.cosmos import CosmosLab
from azlatch.lab.cosmos.clock import LabClock
from azlatch.lab.cosmos.page import LabPage
from azlatch.lab.cosmos.server import LabServer
from azlatch.lab.cosmos.wire import Reply, Request

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install playwright")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is missing: apt-get install chromium")

IMAGES = Path(__file__).parents[4] / "docs" / "images"
REGIONS = ("West US", "East US")
#: How long the browser may take for anything, milliseconds.
PATIENCE_MS = 20_000
#: Without background networking: where the network is closed, Chromium would ask for its own servers in vain.
ARGUMENTS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--no-sandbox",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium without a window."""
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, timeout=60_000)
        yield running
        running.close()


@pytest.fixture
def lab() -> Iterator[CosmosLab]:
    """A lab whose time stands still, with two containers and no load."""
    clock = LabClock(manual=True, start=1_790_000_000.0)
    with CosmosLab(regions=REGIONS, clock=clock) as running:
        send(running, "POST", "/dbs", {"id": "shop"})
        for name, path, units in (("orders", "/customer", 400), ("carts", "/session", 400)):
            body = {"id": name, "partitionKey": {"paths": [path], "kind": "Hash", "version": 2}}
            send(running, "POST", "/dbs/shop/colls", body, x_ms_offer_throughput=str(units))
        yield running


@pytest.fixture
def page(lab: CosmosLab) -> Iterator[LabPage]:
    """Its page."""
    with LabPage(lab) as running:
        yield running


@pytest.fixture
def tab(browser: Any, page: LabPage) -> Iterator[Any]:
    """A tab in which the address was opened that the lab prints; nothing goes wrong in it unseen."""
    with opened(browser, page) as found:
        yield found


@contextmanager
def opened(browser: Any, page: LabPage, *, known: str = "", **options: Any) -> Iterator[Any]:
    """Such a tab, with options for its browser; what has the words `known` in it may go wrong."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
    context.set_default_timeout(PATIENCE_MS)
    tab = context.new_page()
    wrong: list[str] = []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    tab.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    # Time passes where a test lets it.
    tab.clock.install()
    tab.goto(page.url)
    try:
        yield tab
    finally:
        context.close()
    assert [each for each in wrong if not known or known not in each] == []


def send(lab: CosmosLab, method: str, path: str, body: Any = None, **headers: str) -> int:
    """One request to the engine; the status of what it answers."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    request = Request(method, path, given, b"" if body is None else json.dumps(body).encode())
    return lab.call(lambda: lab.account.handle(request, lab.clock.now()).status)


def write(lab: CosmosLab, item: dict[str, Any], container: str = "orders", key: str = "customer") -> int:
    """One upsert."""
    headers = {
        "x_ms_documentdb_is_upsert": "True",
        "x_ms_documentdb_partitionkey": json.dumps([item[key]]),
    }
    return send(lab, "POST", f"/dbs/shop/colls/{container}/docs", item, **headers)


def live_for(lab: CosmosLab, seconds: int) -> None:
    """Some minutes of a shop: many customers, one of which is hot from time to time; a split in the middle."""
    random = Random(7)

    def second_of(second: int) -> None:
        if second == seconds // 2:
            lab.account.admin.split("shop/orders", "0")
        hot = 30 if second % 120 > 45 else 4
        for number in range(hot + random.randrange(8)):
            customer = "contoso" if number < hot * 0.8 else f"customer {random.randrange(400)}"
            write(lab, {"id": str(random.randrange(40)), "customer": customer, "total": number})

    for second in range(seconds):
        lab.clock.advance(1)
        lab.call(lambda second=second: second_of(second))


def rules(lab: CosmosLab) -> list[str]:
    return [each["rule"] for each in lab.call(lambda: lab.account.admin.rules())]


def test_the_heat_map_shows_where_the_load_is(lab: CosmosLab, page: LabPage, tab: Any) -> None:
    """A row for each range and the one that was split, marks where 429 was answered, and words for it all."""
    lab.call(lambda: lab.account.admin.lag("West US", "East US", 4))
    live_for(lab, 590)
    tab.get_by_role("link", name="shop/orders").click()
    assert tab.locator(".heat .row").all_text_contents() == ["0 ended", "1", "2"]
    assert tab.locator(".heat rect.mark").count() > 20
    said = tab.get_by_role("img").get_attribute("aria-label")
    assert "Load of 3 ranges over time." in said
    told = [each for each in tab.locator(".heat title").all_text_contents() if "answered with 429" in each]
    assert len(told) == tab.locator(".heat rect.mark").count()
    assert all(each.startswith("range 1, ") for each in told)
    shades = tab.locator(".heat rect.c0, .heat rect.c4").evaluate_all(
        "boxes => new Set(boxes.map(box => getComputedStyle(box).fill)).size"
    )
    assert shades == 2
    box = tab.locator(".heat").bounding_box()
    assert (box["width"] > 1_000, box["height"] < 200) == (True, True)
    if os.environ.get("AZLATCH_SCREENSHOTS"):
        IMAGES.mkdir(exist_ok=True)
        tab.screenshot(path=IMAGES / "lab-cosmos.png", clip={"x": 0, "y": 0, "width": 1280, "height": 640})


def press(tab: Any, where: Any, key: str) -> None:
    """Presses a key on something that leads to another page, and waits for that."""
    with tab.expect_event("load"):
        where.press(key)


def test_faults_are_added_and_removed_with_the_keyboard_and_without_javascript(
    lab: CosmosLab, page: LabPage, browser: Any
) -> None:
    """By a button, by the form and as text; a mistake is told beside what was given; the rules apply."""
    with opened(browser, page, known="status of 400", java_script_enabled=False) as tab:
        tab.goto(f"{page.address}faults")
        button = tab.get_by_role("button", name="Add: The next write is carried out, and its reply is lost.")
        press(tab, button, "Enter")
        assert rules(lab) == ["drop-reply op=any-write times=1"]
        tab.get_by_role("combobox", name="Fault").select_option("status")
        tab.get_by_label("Its value").fill("999")
        tab.get_by_label("Partition key, as JSON").fill('["contoso"]')
        press(tab, tab.get_by_label("Its value"), "Enter")
        assert "give it 400 to 599" in tab.get_by_role("alert").text_content()
        assert tab.get_by_label("Partition key, as JSON").input_value() == '["contoso"]'
        tab.get_by_label("Its value").fill("449")
        press(tab, tab.get_by_role("button", name="Add the rule"), "Space")
        assert rules(lab)[1:] == ['status=449 key=["contoso"]']
        tab.get_by_label("Rule", exact=True).fill("reset op=read")
        press(tab, tab.get_by_label("Rule", exact=True), "Enter")
        assert rules(lab)[2:] == ["reset op=read"]
        press(tab, tab.get_by_role("button", name="Remove rule 1"), "Enter")
        assert write(lab, {"id": "1", "customer": "contoso"}) == 449
        tab.reload()
        cells = tab.locator("#rules tbody tr").first.locator("td, th").all_text_contents()
        assert cells[:4] == ["2", 'status=449 key=["contoso"]', "1", "1"]
        press(tab, tab.get_by_role("button", name="Remove all"), "Enter")
        assert rules(lab) == []
        assert tab.get_by_text("Nothing goes wrong.").is_visible()
        assert tab.get_by_text("Without JavaScript the page shows how it was").is_visible()
        assert not tab.get_by_role("button", name="Pause").is_visible()


def test_it_keeps_itself_up_to_date(lab: CosmosLab, tab: Any) -> None:
    """New requests appear; while it is paused nothing is asked, and what has the focus is left in peace."""
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url) if request.resource_type == "fetch" else None)
    rows = tab.locator("#requests tbody tr")
    assert rows.count() == 3
    assert not tab.get_by_text("Without JavaScript").is_visible()
    write(lab, {"id": "first", "customer": "contoso"})
    tab.clock.run_for(2_500)
    expect = playwright.expect
    expect(rows).to_have_count(4, timeout=PATIENCE_MS)
    expect(tab.locator("#containers tbody tr").first).to_contain_text("1", timeout=PATIENCE_MS)
    assert len(asked) == 1
    tab.get_by_role("button", name="Pause").click()
    assert tab.get_by_role("status").text_content() == "Paused"
    write(lab, {"id": "second", "customer": "contoso"})
    tab.clock.run_for(60_000)
    assert (rows.count(), len(asked)) == (4, 1)
    tab.get_by_role("link", name="shop/orders").focus()
    tab.get_by_role("button", name="Pause").evaluate("button => button.click()")
    tab.clock.run_for(2_500)
    expect(rows).to_have_count(5, timeout=PATIENCE_MS)
    assert tab.get_by_role("link", name="shop/orders").evaluate("link => link === document.activeElement")


def test_it_says_when_the_lab_has_ended(lab: CosmosLab, page: LabPage, browser: Any) -> None:
    """What was shown stays, and it is said that it is not live; when the page is gone, too."""
    context = browser.new_context()
    tab = context.new_page()
    tab.clock.install()
    tab.goto(page.url)
    lab.stop()
    status, expect = tab.get_by_role("status"), playwright.expect
    tab.clock.run_for(2_500)
    expect(status).to_have_text("Not live: 503", timeout=PATIENCE_MS)
    page.stop()
    tab.clock.run_for(2_500)
    expect(status).to_have_text("The lab does not answer", timeout=PATIENCE_MS)
    assert tab.get_by_role("link", name="shop/orders").is_visible()
    context.close()


def test_nothing_from_outside_runs(lab: CosmosLab, page: LabPage, tab: Any) -> None:
    """Ids, keys, bodies, rules with markup in them are text, on each page that shows them."""
    nasty = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    name = nasty.replace("/", "")
    write(lab, {"id": name, "customer": f"\"'>{nasty}", "text": f"</pre>{nasty}", nasty: 1})
    lab.add_rule(f"status=503 'name={nasty}'")
    for path in ("", "faults", "requests", "items?path=shop/orders", "item?path=shop/orders&number=1"):
        tab.goto(page.address + path)
        assert tab.locator("img, main script").count() == 0
        assert "alert(1)" in tab.locator("main").text_content() or path == ""
        tab.clock.run_for(2_500)
    assert tab.locator("h1").text_content() == name


def test_a_page_of_another_port_can_do_nothing(lab: CosmosLab, page: LabPage, browser: Any) -> None:
    """Browsers take it for the same site and send the cookie along: neither its form nor its frame works."""
    form = f"""<form method=post action="{page.address}faults/add"><input name=rule value=reset></form>
        <iframe src="{page.address}faults"></iframe>"""

    def hostile(request: Request, _: float) -> Reply:
        return Reply(200, {"content-type": "text/html"}, form.encode())

    other = LabServer(hostile, ["other"], LabClock())
    other.start()
    context = browser.new_context()
    try:
        tab = context.new_page()
        tab.goto(page.url)
        tab.goto(other.endpoints["other"])
        # The browser shows a page of its own in the frame.
        assert tab.frames[1].url == "chrome-error://chromewebdata/"
        with tab.expect_response("**/faults/add") as answered:
            tab.evaluate("document.forms[0].submit()")
        assert answered.value.status == 403
        sent = answered.value.request.all_headers()
        assert sent["cookie"].startswith("azlatch-lab-")
        assert rules(lab) == []
    finally:
        context.close()
        other.stop()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read(lab: CosmosLab, page: LabPage, browser: Any, scheme: str) -> None:
    """Text has the contrast that WCAG asks for, by day and by night; on a telephone nothing sticks out."""
    live_for(lab, 20)
    with opened(browser, page, color_scheme=scheme) as tab:
        for text, ground in PAIRS:
            colours = [tab.evaluate(_COLOUR_OF, each) for each in (text, ground)]
            assert contrast(*colours) >= 4.5, (text, ground, colours)
        tab.set_viewport_size({"width": 380, "height": 700})
        for path in ("", "faults", "requests", "container?path=shop/orders", "items?path=shop/orders"):
            tab.goto(page.address + path)
            assert tab.evaluate("document.documentElement.scrollWidth") <= 380, path


def test_the_keyboard_gets_past_the_header(lab: CosmosLab, tab: Any) -> None:
    """The first stop of the Tab key leads to the content; tables take the focus, to be scrolled."""
    tab.keyboard.press("Tab")
    skip = tab.get_by_role("link", name="Skip to the content")
    assert skip.evaluate("link => link === document.activeElement && link.getBoundingClientRect().x >= 0")
    tab.keyboard.press("Enter")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.getAttribute('aria-labelledby')") == "regions-title"


#: Colours of text, each with one behind it, by their names in the style sheet.
PAIRS = [
    *[
        (text, ground)
        for text in ("ink", "soft", "link", "warn", "bad", "good")
        for ground in ("panel", "ground")
    ],
    *[("ink", "empty"), ("good", "good-ground"), ("bad", "bad-ground")],
]
_COLOUR_OF = """name => {
    const one = document.createElement('i');
    one.style.color = `var(--${name})`;
    document.body.append(one);
    const found = getComputedStyle(one).color.match(/\\d+/g).map(Number);
    one.remove();
    return found;
}"""


def contrast(one: list[int], other: list[int]) -> float:
    """The contrast of two colours, as WCAG 2 computes it."""

    def light(colour: list[int]) -> float:
        parts = [each / 255 for each in colour[:3]]
        linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05

    return max(light(one), light(other)) / min(light(one), light(other))
