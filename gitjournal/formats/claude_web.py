"""Claude Code sessions as the web interface exports them: ``{"loglines": [...]}`` (docs/formats/claude-code.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gitjournal.formats.claude_code import SALVAGE, about, is_record
from gitjournal.formats.claude_map import ClaudeMapper
from gitjournal.formats.document import DocumentFormat
from gitjournal.formats.protocol import About, Head, Item, Source
from gitjournal.formats.records import Record
from gitjournal.formats.report import ImportReport
from gitjournal.formats.shapes import items, members

_BEGINS = re.compile(rb'\s*\{\s*"loglines"\s*:\s*\[')


class ClaudeCodeWeb(DocumentFormat):
    """The same records as in the files of Claude Code, in one document."""

    name = "claude-code-web"
    salvage = SALVAGE
    opened = frozenset({("loglines",)})

    def sniff(self, head: Head) -> bool:
        """Whether the document has records of Claude Code in ``loglines``."""
        lines = items(members(head.document).get("loglines"))
        return any(map(is_record, lines)) or (not lines and head.document is None and bool(_BEGINS.match(head.raw)))

    def about(self, found: Iterator[Record], source: Source) -> About:
        """The first session id, and what the records there say."""
        return about((record for record in found if not record.fragment), source)

    def read(self, found: Iterator[Record], report: ImportReport, source: Source) -> Iterator[Item]:
        """See `RecordFormat.read`. What stands around the records is a ``native`` event."""
        mapper = ClaudeMapper(report, source.path, self.name)
        for record in found:
            if record.fragment:
                yield Item(record, "native", {"format": self.name, "type": "document"})
            else:
                yield mapper.item(record)
        mapper.finish()
