"""Drives pages in a headless Chromium by chromedriver, if both are installed.

The protocol is WebDriver's (https://www.w3.org/TR/webdriver2/), which is JSON over HTTP.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1400,860",
]
KEYS = {
    "ArrowDown": "\ue015", "ArrowUp": "\ue013", "ArrowLeft": "\ue012", "ArrowRight": "\ue014",
    "Enter": "\ue007", "Escape": "\ue00c", "End": "\ue010", "Home": "\ue011",
}  # fmt: skip

# The browser runs on this machine: bypass any proxy.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Browser:
    """A browser session with one window."""

    def __init__(self, address: str, binary: str, folder: Path):
        arguments = [*ARGUMENTS, f"--user-data-dir={folder}"]
        options = {"binary": binary, "args": arguments}
        logs = {"browser": "ALL"}
        always = {"browserName": "chrome", "goog:chromeOptions": options} | {
            "goog:loggingPrefs": logs
        }
        self._session = f"{address}/session"
        found = self._send("POST", "", {"capabilities": {"alwaysMatch": always}})
        self._session += f"/{found['sessionId']}"

    def _send(self, method: str, path: str, content: Any = None) -> Any:
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(self._session + path, data, method=method)
        try:
            with _direct.open(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as e:
            raise AssertionError(json.load(e)["value"]["message"]) from None

    def open(self, page: Path) -> None:
        """Opens a page, and waits until it says that it is ready."""
        self._send("POST", "/url", {"url": page.as_uri()})
        self.wait("document.body.dataset.ready")

    def get(self, expression: str) -> Any:
        """The value of an expression of JavaScript."""
        return self._send("POST", "/execute/sync", {"script": f"return {expression}", "args": []})

    def wait(self, expression: str) -> Any:
        """The value of an expression, once it is not false or null."""
        for _ in range(600):
            found = self.get(expression)
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"{expression} did not come true")

    def press(self, *keys: str) -> None:
        """Presses keys, one after the other."""
        steps = [
            {"type": kind, "value": KEYS.get(key, key)}
            for key in keys
            for kind in ("keyDown", "keyUp")
        ]
        self._send(
            "POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": steps}]}
        )

    def errors(self) -> list[str]:
        """The page's console messages and uncaught errors."""
        return [entry["message"] for entry in self._send("POST", "/se/log", {"type": "browser"})]

    def devtools(self, command: str, **parameters: Any) -> Any:
        """The result of a command of Chrome's DevTools protocol."""
        content = {"cmd": command, "params": parameters}
        return self._send("POST", "/goog/cdp/execute", content)

    def quit(self) -> None:
        self._send("DELETE", "")


@contextlib.contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """A headless Chromium; the test is skipped if there is none.

    Args:
      folder: an empty folder for the browser's files.
    """
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed")
    with subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            started = next(line for line in process.stdout if "started successfully" in line)
            port = started.rstrip(".\n").rpartition(" ")[2]
            browser = Browser(f"http://127.0.0.1:{port}", binary, folder)
            yield browser
            browser.quit()
        finally:
            process.terminate()
