"""Records as agents write them, for tests of importers."""

from __future__ import annotations

import json
from typing import Any


def line(text: Any = "hello", n: int = 0, *, end: bytes = b"\n", **members: Any) -> bytes:
    """A record of a user, as Claude Code writes it."""
    record = {
        "parentUuid": f"u{n - 1}" if n else None,
        "isSidechain": False,
        "sessionId": "s1",
        "type": "user",
        "message": {"role": "user", "content": text},
        "uuid": f"u{n}",
        "timestamp": f"2026-05-01T10:00:{n:02d}.000Z",
    }
    return json.dumps(record | members, ensure_ascii=False, separators=(",", ":")).encode() + end


def reply(content: Any, n: int = 0, *, usage: Any = None, message: Any = None, **members: Any) -> bytes:
    """A record of the model."""
    body = {"id": "msg_1", "model": "m-1", "role": "assistant", "content": content, "stop_reason": "end_turn"}
    if usage is not None:
        body["usage"] = usage
    return line(n=n, type="assistant", message=body | (message or {}), **members)
