"""What provider responses used, as small records, and their sum: a response counts once, however many events repeat it.

Floor 4. Pure. The rules are those of `ledger`, which `gj cost` counts by. A record has hashes of ids in it, no text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from struct import Struct
from typing import Any, NamedTuple

from gitjournal.vocabulary import USAGE

#: Seq, whether something was said, hashes of the response's id and of its provider, and the counters of `USAGE`.
_RECORD = Struct(">I?8s8s5Q")
_NONE = bytes(8)
_MOST = (1 << 64) - 1

Counts = list[int]


class Used(NamedTuple):
    """How many responses there are, and the sum of their counters, in the order of `USAGE`."""

    responses: int = 0
    counts: tuple[int, ...] = (0,) * len(USAGE)


def record(seq: int, data: Mapping[str, Any], counts: Iterable[int], *, spoke: bool) -> bytes:
    """The record of an event of type ``model.response``; ``spoke``: it has message parts."""
    name = data.get("response.id")
    digest = _digest(name)
    return _RECORD.pack(
        seq, spoke or digest != _NONE, digest, _digest(data.get("provider.name")), *(min(one, _MOST) for one in counts)
    )


def _digest(name: Any) -> bytes:
    if not isinstance(name, str) or not name:
        return _NONE
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def first(records: bytes) -> int:
    """The seq of the first of records."""
    return int.from_bytes(records[:4])


def within(records: bytes, after: int, upto: int) -> bytes:
    """Those of the records, in order of seq, that are of events ``after`` < seq <= ``upto``."""
    size = _RECORD.size
    seqs = [int.from_bytes(records[at : at + 4]) for at in range(0, len(records), size)]
    return b"".join(records[n * size : (n + 1) * size] for n, seq in enumerate(seqs) if after < seq <= upto)


def total(records: bytes) -> Used:
    """The sum of records, in the order in which the events count."""
    rows = list(_RECORD.iter_unpack(records))
    names = [row[2] for row in rows if row[2] != _NONE]
    if len(set(names)) == len(names):
        # No id twice: the usual case of a long session that was recorded live.
        _, spoke, _, _, *counts = zip(*rows, strict=True) if rows else ((),) * (4 + len(USAGE))
        return Used(sum(spoke), tuple(map(sum, counts)))
    return _merged(rows)


def _merged(rows: Iterable[tuple[Any, ...]]) -> Used:
    # By id: [provider, counters] of each response. More than one only if their providers are named, and differ.
    known: dict[bytes, list[list[Any]]] = {}
    found: list[list[Any]] = []
    responses = 0
    for _, spoke, name, provider, *counts in rows:
        there = known.setdefault(name, []) if name != _NONE else []
        same = next((one for one in there if _NONE in (provider, one[0]) or provider == one[0]), None)
        if same is None:
            responses += spoke
            there.append([provider, counts])
            found.append(there[-1])
        else:
            same[0] = same[0] if same[0] != _NONE else provider
            same[1] = list(map(max, same[1], counts))
    return Used(responses, tuple(map(sum, zip(*(counts for _, counts in found), strict=True))))
