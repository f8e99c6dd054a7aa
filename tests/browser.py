"""A headless Chromium that all tests share, in one process of pytest-xdist.

browser      the browser; tests that use it, or a page, are in one group of pytest-xdist
page         a new page of 1280 x 800; the test fails if the page reports an error or a violation
             of its Content-Security-Policy, unless the test takes it from `page_errors`
page_errors  what the page has reported so far
violations   runs axe-core in a page and returns what is wrong for people with disabilities
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

AXE = Path(__file__).parent / "viewer" / "vendor" / "axe-core" / "axe.min.js"
# As in scripts/chromium.sh.
NAMES = os.environ.get("CHROMIUM", "chromium chromium-browser google-chrome").split()
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Chromium reports violations of a Content-Security-Policy as events, and in the console.
REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`CSP: ${event.effectiveDirective} does not allow ${event.blockedURI}`));
"""
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that use the browser into one group, so that only one process starts it."""
    for item in items:
        if isinstance(item, pytest.Function) and "browser" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser.

    Playwright leaves an event loop running in this thread: another one, such as that of a server,
    needs a thread of its own.
    """
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.fail("the tests need Chromium: sudo apt-get install chromium", pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page_errors() -> list[str]:
    """Errors that the page has reported; a test that expects some clears the list."""
    return []


@pytest.fixture
def page(browser: Browser, page_errors: list[str]) -> Iterator[Page]:
    """A page of 1280 x 800 without cookies or cache."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.add_init_script(REPORT_VIOLATIONS)
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.on("pageerror", lambda error: page_errors.append(f"{error}\n{error.stack}"))
    page.on(
        "console",
        lambda message: page_errors.append(message.text) if message.type == "error" else None,
    )
    yield page
    context.close()
    assert page_errors == []


def violations(page: Page, within: str | None = None) -> list[str]:
    """Return the rules of axe-core that the page breaks, each with the elements in question.

    The rules are those of WCAG 2.2, levels A and AA, which include contrast, and axe's own.
    Scripts of the tools are not subject to the page's Content-Security-Policy.
    """
    page.evaluate(AXE.read_text())
    result = page.evaluate(
        "([within, rules]) => axe.run(within ?? document, {runOnly: rules})", [within, RULES]
    )
    assert result["passes"], "axe-core has checked nothing"
    return [
        f"{found['id']}: {found['help']}: {node['html'][:200]}: {node['failureSummary']}"
        for found in result["violations"]
        for node in found["nodes"]
    ]
