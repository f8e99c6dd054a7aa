"""The browser of the tests sees what a page does wrong."""

import pytest
from browser import violations

GOOD = """<!doctype html><html lang="en"><title>Good</title>
<main><h1>Good</h1><button>Press</button></main></html>"""


@pytest.fixture
def served(page):
    """Serve pages to the browser, with a policy that allows no inline scripts."""

    def show(html):
        headers = {"Content-Security-Policy": "default-src 'self'"}
        page.route(
            "http://test.invalid/",
            lambda route: route.fulfill(body=html, content_type="text/html", headers=headers),
        )
        page.goto("http://test.invalid/")

    return show


def test_a_good_page(page, served):
    served(GOOD)
    assert page.inner_text("h1") == "Good"
    assert violations(page) == []


def test_low_contrast_and_missing_labels_are_found(page):
    page.set_content(GOOD.replace("<h1>", "<input>").replace("<title>Good</title>", ""))
    assert {text.partition(":")[0] for text in violations(page)} >= {"label", "document-title"}
    page.set_content(GOOD.replace("<h1>", '<h1 style="color: #999; background: #fff">'))
    assert [text.partition(":")[0] for text in violations(page)] == ["color-contrast"]


def test_violations_of_the_policy_are_errors(page, page_errors, served):
    served(GOOD.replace("<h1>", "<script>alert(1)</script><h1>"))
    assert any("CSP: script-src-elem does not allow inline" in text for text in page_errors)
    page_errors.clear()


def test_exceptions_are_errors(page, page_errors, served):
    served(GOOD)
    page.evaluate("setTimeout(() => { throw new Error('broken') })")
    page.wait_for_timeout(100)
    assert "broken" in page_errors[0]
    page_errors.clear()
