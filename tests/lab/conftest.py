"""A browser, for tests that open pages."""

import shutil

import pytest


@pytest.fixture(scope="module")
def browser():
    """Chromium without a window; tests that need it are skipped on a machine without one."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("there is no chromium on this machine")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()
