"""Secrets in a text: the detector, which is another package, behind one door (docs/secrets.md).

Floor 0, pure: nothing here or in the detector reads a file or talks to a network. The detector is no part of the core:
who asks for it without having it gets `Missing`, never an answer that says "clean".
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

from gitjournal.errors import JournalError, UsageError

#: The distribution that has the rules, and how it is installed.
DETECTOR = "redact-secret"
INSTALL = "pip install 'gitjournal[secrets]'"

#: What stands in the place of a secret: the rule that found it, and 8 hex digits of a keyed hash of it. Some rules find
#: the beginning of one, without its bracket.
MARK = re.compile(r"\[redacted:[a-z0-9_.-]{1,64}:[0-9a-f]{8}\]?")
# Rules that go by what stands around a value and not by its own form.
_BY_CONTEXT = frozenset({"contextual_secret", "authorization_credential", "bearer_token"})

# Far above what a record or a side file can hold: the detector refuses more, and a refusal must not depend on content.
_MAX_BYTES = 1 << 34
_MAX_FINDINGS = 1 << 31
# A part of a finding beside marks that is no longer than this is punctuation, not a secret.
_REST = 3
_END = re.compile(r'"(?:[\s\]},:]|\Z)')
#: A longer run of base64 characters is no credential but a blob, and is not looked at.
MAX_RUN = 8192
# From here on a run is measured; with more beginnings of a JSON object in base64 than this it is no token either.
_LONG = 1024
_STARTS = 16
_RUN = re.compile(rf"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/=_-]{{{_LONG},}}+")
# Replaced character by character, so that places stay what they are: it cannot be encoded.
_SURROGATE = re.compile("[\ud800-\udfff]")


class Missing(JournalError):
    """The detector is not installed, or is one that cannot be used."""

    code = "no-detector"


class Found(NamedTuple):
    """A secret at ``text[start:end]``."""

    start: int
    end: int
    rule: str


def find(text: str, more: str = "") -> list[Found]:
    """The secrets in a text, in order and apart from each other. Marks of an earlier redaction are none. Missing.

    ``more`` are rules of the user's own, a ruleset of the detector (see `check`).
    """
    module, limits = _detector()
    clean = _without_blobs(text.encode("utf-8", "replace").decode() if _SURROGATE.search(text) else text)
    try:
        listed = module.scan(clean, limits=limits, ruleset=more or None)
    except module.SecretScanError as error:
        raise Missing(f"the detector of secrets failed: {error}", hint=f"Install it anew: {INSTALL}") from None
    found = [_ended(text, Found(one.start, one.end, one.type)) for one in listed]
    return _apart(sorted(one for one in found if has_secret(text[one.start : one.end]))) if found else []


def _without_blobs(text: str) -> str:
    """The text with long runs of base64 blanked, place by place: images and the like are no secrets.

    In random text every short form occurs, and the detector's time is not linear for runs that look like many tokens.
    """
    return _RUN.sub(_blanked, text) if len(text) >= _LONG else text


def _blanked(match: re.Match[str]) -> str:
    run = match[0]
    return " " * len(run) if len(run) > MAX_RUN or run.count("eyJ") > _STARTS else run


def check(more: str) -> None:
    """UsageError for rules of the user's own that the detector does not take. Missing."""
    module, _ = _detector()
    try:
        module.scan("", ruleset=more)
    except module.SecretScanError as error:
        raise UsageError(f"these rules are none that {DETECTOR} knows: {error}") from None


def version() -> str:
    """The detector and its version, for people. Missing."""
    from importlib import metadata

    _detector()
    return f"{DETECTOR} {metadata.version(DETECTOR)}"


def rules() -> list[str]:
    """The names of all rules. Missing."""
    module, _ = _detector()
    return sorted({kind for one in module.artifact_manifest()["detectors"] for kind in one["types"]})


@lru_cache(maxsize=1)
def _detector() -> tuple[Any, Any]:
    try:
        import redact_secret

        return redact_secret, redact_secret.WholeInputLimits(max_input_bytes=_MAX_BYTES, max_findings=_MAX_FINDINGS)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise Missing(f"no detector of secrets can be used: {error}", hint=f"Install it with: {INSTALL}") from None


def _ended(text: str, one: Found) -> Found:
    """A finding without the JSON that stands behind it: a value without quotes of its own ends at white space only."""
    end = _END.search(text, one.start, one.end) if one.rule in _BY_CONTEXT else None
    return one._replace(end=end.start()) if end and end.start() > one.start else one


def has_secret(text: str) -> bool:
    """Whether something is left of a finding when marks are taken out of it."""
    return "[redacted:" not in text or any(len(rest) > _REST for rest in MARK.split(text))


def _apart(found: list[Found]) -> list[Found]:
    """Findings that overlap are one, with the rule of the first."""
    joined = found[:1]
    for one in found[1:]:
        last = joined[-1]
        if one.start < last.end:
            joined[-1] = last._replace(end=max(last.end, one.end))
        else:
            joined.append(one)
    return joined
