"""A headless Chromium for tests, spoken to over a pipe: no port, no network, a profile that is thrown away."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

#: The browser, or None; CHROMIUM names another one.
PROGRAM = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--remote-debugging-pipe"),
)
# Seconds until a browser that says nothing has failed; the machine may be busy.
_PATIENCE = 120


class Page:
    """One tab."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self("Page.enable")
        self("Page.setLifecycleEventsEnabled", enabled=True)
        self("Runtime.enable")
        self("Network.enable")

    def __call__(self, method: str, **params: Any) -> Any:
        """A call of the DevTools protocol; what it gives."""
        return self._browser.call(method, params, self._session)

    def open(self, path: Path) -> float:
        """Load a file; the seconds that it took. Asking the document instead may ask the one that is about to go."""
        start = time.monotonic()
        loader = self("Page.navigate", url=path.as_uri())["loaderId"]
        self._browser.hear(self._session, "Page.lifecycleEvent", loaderId=loader, name="load")
        return time.monotonic() - start

    def open_until(self, path: Path, expression: str) -> None:
        """Load a file again until an expression is true: what one document has stored, the next may not see at once."""
        for _ in range(100):
            self.open(path)
            if self.js(expression):
                return
            time.sleep(0.05)
        raise AssertionError(f"never came: {expression}")

    def js(self, expression: str) -> Any:
        """The value of an expression, awaited."""
        got = self("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in got, got["exceptionDetails"]
        return got["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression is true."""
        for _ in range(600):
            if self.js(expression):
                return
            time.sleep(0.05)
        raise AssertionError(f"never came: {expression}")

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self("Input.insertText", text=text)

    def key(self, key: str, code: int, modifiers: int = 0) -> None:
        """Press a key; ``code`` is its virtual key code."""
        text = key if len(key) == 1 else "\r" if key == "Enter" else ""
        for kind in ("keyDown", "keyUp"):
            self(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=code,
                modifiers=modifiers,
                **({"text": text} if text and kind == "keyDown" else {}),
            )

    def events(self, method: str) -> list[Any]:
        """What the browser has told of this tab under a name so far."""
        told = self._browser.told
        return [one["params"] for one in told if one["method"] == method and one.get("sessionId") == self._session]

    def picture(self, path: Path) -> None:
        """A picture of what is seen."""
        path.write_bytes(base64.b64decode(self("Page.captureScreenshot")["data"]))

    def pdf(self) -> bytes:
        """The page as it prints."""
        return base64.b64decode(self("Page.printToPDF", printBackground=True)["data"])


class Browser:
    """A running browser."""

    def __init__(self, profile: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        assert PROGRAM
        # The browser reads from descriptor 3 and writes to 4.
        script = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        command = [PROGRAM, *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_read)
        os.close(to_write)
        self._last = 0
        self._rest = b""
        self.told: list[Any] = []

    def page(self) -> Page:
        """A new tab."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        return Page(self, self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"])

    def call(self, method: str, params: dict[str, Any], session: str | None = None) -> Any:
        """A call of the protocol."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        message |= {"sessionId": session} if session else {}
        with os.fdopen(os.dup(self._write), "wb") as pipe:
            pipe.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._last:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            if "method" in answer:
                self.told.append(answer)

    def hear(self, session: str, method: str, **params: Any) -> None:
        """Wait until the browser has told of a tab what has this name and these parameters."""
        looked = 0
        while True:
            for one in self.told[looked:]:
                if (one["method"], one.get("sessionId")) == (method, session) and params.items() <= one[
                    "params"
                ].items():
                    return
            looked = len(self.told)
            answer = self._message()
            if "method" in answer:
                self.told.append(answer)

    def _message(self) -> Any:
        while b"\0" not in self._rest:
            assert select.select([self._read], [], [], _PATIENCE)[0], "the browser says nothing"
            got = os.read(self._read, 1 << 20)
            assert got, "the browser has ended"
            self._rest += got
        text, _, self._rest = self._rest.partition(b"\0")
        return json.loads(text)

    def close(self) -> None:
        """End the browser and its children."""
        with suppress(AssertionError, OSError):
            self.call("Browser.close", {})
        os.close(self._write)
        os.close(self._read)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser with a new profile in the folder ``profile``."""
    one = Browser(profile)
    try:
        yield one
    finally:
        one.close()
