"""A headless Chromium driven over the WebDriver protocol with the standard library only."""

import base64
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


class Browser:
    """One session; leave it as a context to end the browser."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._profile = tempfile.mkdtemp(prefix="taddaa-browser-")
        self._driver = subprocess.Popen(["chromedriver", f"--port={self._port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        options = {"args": [*FLAGS, f"--user-data-dir={self._profile}"]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        deadline = time.monotonic() + 20
        while True:
            try:
                self._session = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
                return
            except urllib.error.URLError:
                if time.monotonic() > deadline:
                    self._driver.kill()
                    raise
                time.sleep(0.1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._ask("DELETE", f"/session/{self._session}")
        self._driver.terminate()
        self._driver.wait()
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, path: Path) -> None:
        self._command("url", {"url": path.resolve().as_uri()})

    def run(self, script: str, *arguments):
        return self._command("execute/sync", {"script": script, "args": list(arguments)})

    def view(self, width: int, height: int, scheme: str = "light") -> None:
        self._devtools(
            "Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        )
        self._devtools("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def media(self, kind: str) -> None:
        """As on paper (`print`), or as it is ('')."""
        self._devtools("Emulation.setEmulatedMedia", {"media": kind})

    def printed(self) -> str:
        """The page as a PDF, in base64."""
        return self._devtools("Page.printToPDF", {"preferCSSPageSize": True, "printBackground": True})["data"]

    def scripts(self, enabled: bool) -> None:
        self._devtools("Emulation.setScriptExecutionDisabled", {"value": not enabled})

    def log(self, kind: str) -> list[dict]:
        return self._command("se/log", {"type": kind})

    def requests(self) -> list[str]:
        """Addresses that pages asked for since the last call."""
        events = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def screenshot(self, path: Path, whole: bool = True) -> None:
        shot = self._devtools("Page.captureScreenshot", {"captureBeyondViewport": whole})
        path.write_bytes(base64.b64decode(shot["data"]))

    def _devtools(self, command: str, parameters: dict):
        return self._command("goog/cdp/execute", {"cmd": command, "params": parameters})

    def _command(self, name: str, body: dict):
        return self._ask("POST", f"/session/{self._session}/{name}", body)

    def _ask(self, method: str, path: str, body: dict | None = None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}{path}", data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]


@pytest.fixture(scope="module")
def browser():
    """Skips where there is no browser, unless everything is required."""
    if shutil.which("chromedriver") is None or shutil.which("chromium") is None:
        if os.environ.get("TADDAA_REQUIRE_ALL") == "1":
            pytest.fail("TADDAA_REQUIRE_ALL=1, but chromium and chromedriver are not installed")
        pytest.skip("chromium and chromedriver are not installed (Debian: apt-get install chromium chromium-driver)")
    with Browser() as session:
        yield session
