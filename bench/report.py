"""The result of a benchmark run: rows, the machine, and how both are printed."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import subprocess
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

LIBRARIES = ("gitjournal", "pygit2", "orjson", "rfc8785", "isal", "click")


@dataclass(slots=True)
class Row:
    """One measure: our figure, the peer's, and what was aimed at.

    ``lower`` says that less is better (times, sizes). ``target`` is the text, ``met`` None where there is no target.
    """

    measure: str
    value: float | None
    unit: str
    peer: str = ""
    peer_value: float | None = None
    lower: bool = True
    target: str = ""
    met: bool | None = None
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """How many times better than the peer; below 1 it is worse."""
        if not self.value or not self.peer_value:
            return None
        return self.peer_value / self.value if self.lower else self.value / self.peer_value

    def at_most(self, bound: float, text: str = "") -> Row:
        """Set the target: a value of at most ``bound``."""
        return self._aim(text or f"<= {bound:,g} {self.unit}", self.value, bound, -1)

    def at_least(self, bound: float, text: str = "") -> Row:
        """Set the target: a value of at least ``bound``."""
        return self._aim(text or f">= {bound:,g} {self.unit}", self.value, bound, 1)

    def beats(self, times: float, text: str = "") -> Row:
        """Set the target: at least so many times better than the peer."""
        return self._aim(text or f">= {times:g}x", self.ratio, times, 1)

    def _aim(self, text: str, value: float | None, bound: float, sign: int) -> Row:
        self.target = text
        self.met = None if value is None else sign * value >= sign * bound
        return self

    def as_dict(self) -> dict[str, Any]:
        """The row as JSON."""
        names = ("measure", "value", "unit", "peer", "peer_value", "lower", "target", "met", "details")
        return {**{name: getattr(self, name) for name in names}, "ratio": self.ratio}


def failed(measure: str, error: BaseException) -> Row:
    """The row of a measure that could not be made."""
    return Row(measure, None, "", details={"error": f"{type(error).__name__}: {error}"})


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table whose columns also line up as plain text."""
    lines = [("measure", "gitjournal", "peer", "ratio", "target", "met?"), ("---",) * 6]
    lines += [_cells(row) for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(6)]
    return "\n".join(_line(line, widths) for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    peer = f"{_number(row.peer_value)} {row.unit} ({row.peer})" if row.peer_value is not None else ""
    ours = f"{_number(row.value)} {row.unit}" if row.value is not None else "not measured"
    ratio = f"{row.ratio:.2f}x" if row.ratio is not None else ""
    met = "" if row.met is None else "yes" if row.met else "NO"
    return (row.measure, ours, peer, ratio, row.target, met)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    if cells[0] == "---":
        return "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"


# --- the machine -----------------------------------------------------------------------------------


def machine(folder: Path) -> dict[str, str]:
    """What the figures depend on: processor, memory, the disk under ``folder``, versions, load."""
    libraries = ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES)
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "file system": _file_system(folder),
        "Python": platform.python_version(),
        "git": _output("git", "version").removeprefix("git version "),
        "SQLite": sqlite3.sqlite_version,
        "libraries": libraries,
        "load at the start": load(),
    }


def load() -> str:
    """Processes that wanted to run in the last minute; above 1 on an otherwise quiet machine the figures are noisy."""
    return f"{os.getloadavg()[0]:.1f}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _file_system(folder: Path) -> str:
    """Type and device of the mount that holds ``folder``."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return "unknown"
    real = folder.resolve()
    holding = [mount for mount in mounts if real.is_relative_to(mount[1])]
    best = max(holding, key=lambda mount: len(mount[1]))
    return f"{best[2]} on {best[0]}"


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


# --- output ----------------------------------------------------------------------------------------


def as_json(facts: dict[str, str], scale: str, rows: list[Row]) -> str:
    """The whole run as JSON text, every round included."""
    found = {"machine": facts, "scale": scale, "rows": [row.as_dict() for row in rows]}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def write(path: Path, facts: dict[str, str], scale: str, rows: list[Row]) -> None:
    """Replace what stands between the markers ``machine`` and ``table`` in a Markdown file. ValueError without them."""
    text = path.read_text(encoding="utf-8")
    about = "\n".join(f"- {name}: {value}" for name, value in {**facts, "scale": scale}.items())
    for marker, content in (("machine", about), ("table", table(rows))):
        begin, end = f"<!-- {marker} -->", f"<!-- /{marker} -->"
        head, found, rest = text.partition(begin)
        _, closed, tail = rest.partition(end)
        if not found or not closed:
            raise ValueError(f"{path} has no {begin} ... {end}")
        text = f"{head}{begin}\n{content}\n{end}{tail}"
    path.write_text(text, encoding="utf-8")
