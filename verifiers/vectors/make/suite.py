"""The list of cases: what a verifier gets, and what it must say (`index.json`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .gitkit import Repo
from .kit import Event, export, side_files

#: (code, seq) or (code, seq, id).
Finding = tuple[Any, ...]
WORDS = {0: "ok", 1: "broken", 3: "incomplete"}


class Suite:
    """All cases and the files that they need, by path below the vectors' folder."""

    def __init__(self) -> None:
        self.cases: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}
        self._bases: list[tuple[str, Repo]] = []
        self._by_content: dict[bytes, str] = {}
        self.folder = ""

    def export(
        self,
        name: str,
        about: str,
        lines: bytes | Sequence[Event],
        find: Iterable[Finding] = (),
        *,
        side: Mapping[str, bytes] | None = None,
        **more: Any,
    ) -> None:
        """A case with an export. Side files are those of the events, unless ``side`` says other ones."""
        raw = lines if isinstance(lines, bytes) else export(lines)
        events = [] if isinstance(lines, bytes) else lines
        beside = side_files(events) if side is None else side
        path = self._stored(f"{name}.jsonl", raw, alone=not beside)
        for file, content in beside.items():
            self.files[f"{path}.files/{file}"] = content
        line: dict[str, Any] = {"head": {"seq": raw.count(b"\n") + (not raw.endswith(b"\n"))}}
        find = list(find)
        if events and not find:
            line["head"]["hash"] = events[-1].hash
        self._add(name, about, path, "jsonl", find, line, **more)

    def _stored(self, name: str, content: bytes, *, alone: bool = True) -> str:
        """Keep a file, and return its path. One that is there already, and has nothing beside it, is not kept twice."""
        path = f"{self.folder}/{name}"
        known = self._by_content.get(content) if alone else None
        if known and known.rpartition(".")[2] == path.rpartition(".")[2]:
            return known
        if alone:
            self._by_content[content] = path
        self.files[path] = content
        return path

    def repo(
        self, name: str, about: str, repo: Repo, find: Iterable[Finding] = (), *, keep: bool = False, **more: Any
    ) -> None:
        """A case with a repository of loose objects. One to ``keep`` is a base: later ones say only what is other."""
        content = min((repo.as_json(base) for base in [None, *self._bases]), key=len)
        path = self._stored(f"{name}.repo.json", content)
        if keep:
            self._bases.append((path, repo))
        line: dict[str, Any] = {}
        if len(repo.refs) == 1:
            ref, target = next(iter(repo.refs.items()))
            holds = len(target) == 40 and target.strip("0123456789abcdef") == ""
            line = {"name": ref, "head": {"commit": target if holds else None}}
        self._add(name, about, path, "git", list(find), line, **more)

    def proof(self, name: str, about: str, raw: bytes, find: Iterable[Finding] = (), **more: Any) -> None:
        """A case with a proof."""
        path = self._stored(f"{name}.json", raw)
        self._add(name, about, path, "proof", list(find), {}, **more)

    def file(self, name: str, about: str, path: str, content: bytes | None, kind: str = "git", **more: Any) -> None:
        """A case with any other file; None is no file at all."""
        if content is not None:
            self.files[f"{self.folder}/{path}"] = content
        self._add(name, about, f"{self.folder}/{path}", kind, list(more.pop("find", ())), {}, **more)

    def generated(self, name: str, about: str, kind: str, find: Iterable[Finding] = (), **more: Any) -> None:
        """A case too big to keep. ``generate`` is a function of `generated.py` and its parameters."""
        self._add(name, about, name, kind, list(find), {}, **more)

    def _add(
        self,
        name: str,
        about: str,
        path: str,
        kind: str,
        find: list[Finding],
        base: dict[str, Any],
        *,
        args: Sequence[str] = (),
        pick: str | None = None,
        exit_: int | None = None,
        **more: Any,
    ) -> None:
        """Add a case. ``more`` are `line` and `verdict` (what the verdict must have), and members of the index."""
        status = exit_ if exit_ is not None else 1 if find else 0
        case: dict[str, Any] = {"name": f"{self.folder}/{name}", "about": about, "input": path}
        case["args"] = [*args, "{input}", *([pick] if pick is not None else [])]
        case["exit"] = status
        if status in WORDS:
            case["findings"] = [list(one[:2]) for one in find]
            if any(len(one) > 2 for one in find):
                case["ids"] = [one[2] if len(one) > 2 else None for one in find]
            verdict = {"input": kind, **more.pop("verdict", {})}
            line = _merge(base, more.pop("line", {}))
            if line and "lines" not in verdict:
                verdict["lines"] = [line]
            case["verdict"] = verdict
        case.update(more)
        self.cases.append(case)

    def index(self) -> bytes:
        """`index.json`: one case a line."""
        names = [case["name"] for case in self.cases]
        if len(set(names)) < len(names):
            raise ValueError(f"two cases of one name: {sorted(n for n in names if names.count(n) > 1)}")
        lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in self.cases)
        return f'{{"version":1,"cases":[\n{lines}\n]}}\n'.encode()


def _merge(one: dict[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(one)
    for name, value in other.items():
        both = isinstance(value, Mapping) and isinstance(out.get(name), Mapping)
        out[name] = _merge(out[name], value) if both else value
    return out
