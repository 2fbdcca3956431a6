"""The site in headless Chromium, opened from file:// as it would be from a downloaded artifact."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from dashboards.build import build
from dashboards.catalog import slug
from published_site import hostile_tables, published
from published_stories import STORIES

pytestmark = [pytest.mark.slow, pytest.mark.browser]

# --no-sandbox is only needed as root; the others keep Chromium itself from calling home.
ARGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
FAILED = STORIES[0]
DIVERGED = next(story for story in STORIES if story.name == "confirmed-without-reschedule@final")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("site")
    published(root / "published")
    build(root / "published", root / "site")
    return root / "site"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = os.environ.get("TWICESHY_CHROMIUM") or shutil.which("chromium")
    if executable is None:
        if os.environ.get("CI"):
            pytest.fail("CI has no chromium: install it, or name it in TWICESHY_CHROMIUM")
        pytest.skip("no chromium here")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=ARGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that must reach nothing but files and must complain about nothing."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page, wrong = context.new_page(), []
    page.on(
        "request", lambda request: wrong.append(request.url) if not request.url.startswith(("file:", "data:")) else None
    )
    page.on("requestfailed", lambda request: wrong.append(f"failed: {request.url}"))
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    yield page
    context.close()
    assert wrong == []


def shown(page: Page) -> list[str]:
    """The signatures that the catalog shows."""
    return page.locator(".catalog tbody tr:visible .c-name a").all_inner_texts()


def case(site: Path, name: str) -> str:
    return (site / "sig" / f"{slug(name)}.html").as_uri()


def screenshot(page: Page, tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.png"
    page.screenshot(path=path, full_page=True)
    assert path.stat().st_size > 20_000


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("index", 1280, "light"), ("index", 390, "dark"), ("failed", 1280, "dark"), ("failed", 390, "light"), ("diverged", 1280, "light"),
    ],
)  # fmt: skip
def test_page_fits_its_window(browser: Browser, site: Path, tmp_path: Path, scheme: Any, width: int, name: str) -> None:
    uris = {
        "index": (site / "index.html").as_uri(),
        "failed": case(site, FAILED.name),
        "diverged": case(site, DIVERGED.name),
    }
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto(uris[name])
    assert page.evaluate("document.documentElement.scrollWidth") == width
    screenshot(page, tmp_path, f"{name}-{width}-{scheme}")
    context.close()


def test_index_opens_from_three_files(site: Path, page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    files = sorted(url.rpartition("/")[2] for url in asked if url.startswith("file:"))
    assert files == ["app.css", "app.js", "index.html", "steps.css"]
    assert page.locator("h1").inner_text() == "1 case failed"
    assert page.locator(".counters dd").all_inner_texts() == ["1", "1", "3", "1", "5"]


def test_coverage_cells_say_their_state(site: Path, page: Page) -> None:
    page.goto((site / "index.html").as_uri())
    row = page.locator(".grid tr", has=page.locator("th", has_text="issue_refund"))
    cells = [" ".join(text.split()) for text in row.locator("td").all_inner_texts()]
    assert re.fullmatch(r"2 / \d+ covered", cells[0])
    assert re.fullmatch(r"0 / \d+ gap", cells[2])
    assert cells[3] == "0 / 0 not seen"


def test_click_on_cell_filters_catalog(site: Path, page: Page) -> None:
    page.goto((site / "index.html").as_uri())
    page.locator(".grid td a", has_text="covered").first.click()
    assert page.url.endswith("#t=issue_refund&e=ok")
    assert shown(page) == [FAILED.name, "refund-refused-below-limit@guard", "refund-below-limit"]
    page.locator("[data-cell]").click()
    assert len(shown(page)) == len(STORIES) + 2


def test_cell_without_signature_says_so(site: Path, page: Page) -> None:
    page.goto((site / "index.html").as_uri() + "#t=get_order&e=timeout")
    assert shown(page) == []
    assert page.locator("#none").inner_text() == "Nothing in the catalog fits. No signature belongs to this cell."


def test_filter_goes_into_the_address(site: Path, page: Page) -> None:
    page.goto((site / "index.html").as_uri())
    page.get_by_label("Filter").fill("research")
    page.get_by_role("button", name="passed").click()
    assert page.url.endswith("#q=research&s=passed")
    assert shown(page) == ["search-loop@tool", "hits-read-as-zero@post-tool-hook"]
    assert page.locator("#shown").inner_text() == f"2 of {len(STORIES) + 2} shown"
    page.reload()
    assert len(shown(page)) == 2


def test_deep_link_shows_right_rows(site: Path, page: Page) -> None:
    page.goto((site / "index.html").as_uri() + "#q=refund&s=diverged")
    assert shown(page) == ["refund-refused-below-limit@guard"]
    assert page.get_by_role("button", name="diverged").get_attribute("aria-pressed") == "true"
    assert page.evaluate("document.querySelector('#catalog').getBoundingClientRect().top") < 450


def test_counter_leads_to_its_cases(site: Path, page: Page) -> None:
    page.goto((site / "index.html").as_uri())
    page.locator(".counters .o-diverged a").click()
    assert len(shown(page)) == 3


def test_third_click_restores_the_order(site: Path, page: Page) -> None:
    page.goto((site / "index.html").as_uri())
    before = shown(page)
    button = page.get_by_role("button", name="traces")
    button.click()
    ascending = [int(text) for text in page.locator(".catalog .c-hits").all_inner_texts() if text]
    assert ascending == sorted(ascending)
    button.click()
    button.click()
    assert shown(page) == before


def test_violation_leads_to_its_step(site: Path, page: Page) -> None:
    page.goto(case(site, FAILED.name))
    page.locator(".assertion a", has_text="#4").click()
    step = page.locator("#step-4")
    assert step.locator(".badges").first.inner_text().split() == ["violated", "intercepted", "same"]
    top = page.evaluate("document.querySelector('#step-4').getBoundingClientRect().top")
    assert 0 < top < 400


def test_link_opens_folded_step(site: Path, page: Page) -> None:
    page.goto(case(site, FAILED.name))
    assert not page.locator("#step-1").is_visible()
    page.locator(".strip a[href='#step-1']").click()
    assert page.locator("#step-1 .body").first.is_visible()


def test_diff_shows_what_the_hook_stripped(site: Path, page: Page) -> None:
    page.goto(case(site, FAILED.name))
    row = page.locator("#step-2 .leaves tbody tr")
    assert row.inner_text().split() == ["shown", "policy_limit_gbp", "not", "there", "500"]
    edits = page.locator("#step-2 .middleware tbody td")
    assert "policy_limit_gbp" in edits.nth(0).inner_text()
    assert "policy_limit_gbp" not in edits.nth(1).inner_text()


def test_divergence_stands_out(site: Path, page: Page) -> None:
    page.goto(case(site, DIVERGED.name))
    diverged = page.locator(".step.diverged")
    assert diverged.count() == 1
    assert "list_open_slots" in diverged.inner_text()
    assert "Friday" in diverged.inner_text()
    assert page.locator(".folded", has_text="never came to").is_visible()


def test_hint_follows_keyboard_and_pointer(site: Path, page: Page) -> None:
    page.goto((site / "index.html").as_uri())
    tip = page.locator("#tip")
    page.locator(".grid td a").first.focus()
    assert "production runs" in tip.inner_text()
    page.locator(".hit").first.hover()
    assert re.match(r"2026-11-01: \d+ of \d+ diverged", tip.inner_text())
    page.keyboard.press("Escape")
    assert not tip.is_visible()


def test_hostile_text_does_nothing(tmp_path: Path, page: Page) -> None:
    text = "</td></details></script><img src=x onerror=alert(1)><svg onload=alert(2)>\"' onmouseover=alert(3) x='"
    published(tmp_path / "published", **hostile_tables(text))
    build(tmp_path / "published", tmp_path / "site")
    for uri in ((tmp_path / "site" / "index.html").as_uri(), case(tmp_path / "site", FAILED.name)):
        page.goto(uri)
        page.locator("[data-tip]").first.hover()
        assert page.locator("img, [onload], [onerror], [onmouseover]").count() == 0
        assert page.get_by_text("onerror=alert(1)").count() > 0


def test_page_reads_without_scripts(browser: Browser, site: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / "index.html").as_uri())
    assert len(shown(page)) == len(STORIES) + 2
    assert page.locator("#divergence svg .dot").count() > 50
    assert not page.locator(".filter").is_visible()
    context.close()
