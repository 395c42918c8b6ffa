"""A branch open for writing, and what an agent records on it: what `Journal.session` returns.

Floor 3. What events say is built in `drafts`; their bytes and their place are the business of `writer`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

from gitjournal import calls, drafts
from gitjournal.calls import Calls, ToolCall, Turn
from gitjournal.chain import Appended, Chain
from gitjournal.errors import FormatError, JournalError, NotFound, Refused, UsageError
from gitjournal.plain import is_plain, kind, plain
from gitjournal.refs import TRUNK, Name
from gitjournal.state import fold
from gitjournal.writer import Draft, Writer

if TYPE_CHECKING:
    from gitjournal.redact import Redactor

#: Types that have a meaning for the chain; only the calls named for them make such events.
RESERVED_TYPES = frozenset(
    {"session.start", "session.branch", "session.fork", "session.seal", "session.erasure", "session.delete"}
)


_WAITING = "Of wakes with one key the first waits, until it is done or cancelled. gj wakes lists those that wait."


class Session:
    """A branch open for writing: a context manager. Threads may share it.

    There is a method for each kind of event, and `append` for everything else. Each returns where the event is. What
    cannot be kept is a UsageError or FormatError that names it; nothing is written then.
    """

    def __init__(self, writer: Writer, *, seals: bool = False, redactor: Redactor | None = None) -> None:
        self._writer = writer
        self._redactor = redactor
        self._seals = seals
        # seq of the newest event when it was opened or sealed: what is beyond is not covered.
        self._sealed_to = writer.head.seq if writer.head else 0
        self.name = writer.chain.name
        self._turn: str | None = None
        # Whether the session was terminated here. What others have written before is not read for it.
        self._over = False
        # Held from the look at the open calls until what depends on it is written.
        self._lock = threading.RLock()
        self._calls = Calls(lambda: fold(writer.chain.events(), history=False).open_calls)

    @property
    def head(self) -> Appended:
        """Seq and event hash of the newest event."""
        head = self._writer.head
        if head is None:
            raise NotFound(f"{self.name} has no event yet")
        return head

    @property
    def chain(self) -> Chain:
        """The branch for reading."""
        return self._writer.chain

    @property
    def epoch(self) -> int:
        """The number of this writer incarnation, in every event that it appends."""
        return self._writer.epoch

    @property
    def set_aside(self) -> int:
        """Bytes of a cut, never acknowledged write that opening this session moved to ``<branch>.torn``."""
        return self._writer.set_aside

    def append(
        self,
        type: str,  # noqa: A002 - the format's own word for it
        data: Mapping[str, Any],
        *,
        actor: str = "host",
        turn: str | None = None,
        ts: str | None = None,
        expected_seq: int | None = None,
    ) -> Appended:
        """Append one event. Durable on return (see ``durability`` of `Journal.session`).

        ``expected_seq`` is the seq that the newest event must have now: ConflictError when it has another.
        Raises FormatError or UsageError for an event that the format does not allow: nothing is written then.
        """
        draft = _allowed(Draft(type, data, actor, self._turn if turn is None else turn, ts))
        try:
            return self._append(draft, expected_seq)
        except FormatError as error:
            # It may hold objects that stand for JSON: those are looked for when it is not JSON as it is.
            if error.code != "bad-json":
                raise
            try:
                known = plain(data, "data")
            except UsageError:
                raise error from None
            return self._append(draft._replace(data=known), expected_seq)

    def _append(self, draft: Draft, expected_seq: int | None = None) -> Appended:
        draft = self._redacted(draft)
        if draft.type not in calls.TYPES:
            done = self._writer.append(draft, expected_seq=expected_seq)
            self._over = self._over or draft.type == "session.terminate"
            return done
        with self._lock:
            done = self._writer.append(draft, expected_seq=expected_seq)
            self._calls.note(draft.type, draft.data)
        return done

    def _redacted(self, draft: Draft) -> Draft:
        if self._redactor is None:
            return draft
        if draft.files:
            raise UsageError(
                "side files of a draft are not redacted",
                hint="Put the text into the data: what is long becomes a side file by itself.",
            )
        return draft._replace(data=self._redactor.noted(draft.data))

    def _check_goes_on(self) -> None:
        if self._over:
            raise Refused(
                f"{self.name} is terminated: nothing new begins in it", hint="Begin another session, or fork."
            )

    def _record(self, type: str, data: dict[str, Any], actor: str = "host") -> Appended:  # noqa: A002
        return self._append(Draft(type, data, actor, self._turn))

    def append_many(
        self,
        items: Iterable[Draft | tuple[str, Mapping[str, Any], str]],
        *,
        expected_seq: int | None = None,
    ) -> list[Appended]:
        """Append a batch, each a `Draft` or (type, data, actor), with one sync.

        Up to 4,096 events and 4 MiB are stored whole or not at all; longer batches in such pieces.
        """
        if not isinstance(items, Iterable):
            raise UsageError(f"a batch is a list of drafts, not a {kind(items)}")
        with self._lock:
            over = self._over
            try:
                return self._writer.append_many(self._placed(items), expected_seq=expected_seq)
            except BaseException:
                self._calls.forget()
                self._over = over
                raise

    def _placed(self, items: Iterable[Draft | tuple[str, Mapping[str, Any], str]]) -> Iterator[Draft]:
        for item in items:
            draft = self._redacted(_allowed(_draft(item)))
            if draft.type in calls.TYPES and isinstance(draft.data, Mapping):
                self._calls.note(draft.type, draft.data)
            self._over = self._over or draft.type == "session.terminate"
            yield draft._replace(turn=self._turn) if self._turn and draft.turn is None else draft

    # --- what is said ----------------------------------------------------------------------------

    def user(self, content: object, *, actor: str = "user") -> Appended:
        """A message of the user: text, a part of docs/events.md, or a list of both."""
        return self.message("user", content, actor=actor)

    def system(self, content: object) -> Appended:
        """A message of the system to the model."""
        return self.message("system", content)

    def message(self, role: str, content: object, *, name: str | None = None, actor: str | None = None) -> Appended:
        """A message of role ``user``, ``system``, ``assistant`` or ``tool``. ``actor``: who it is from.

        Results of tools in it are of open calls, one of each: UsageError else, as of `tool_result`. One without an id
        is that of the oldest open call of the tool that it names.
        Refused after `terminate`, as are `model_response`, `tool_call`, `turn`, `wake` and a second `terminate`.
        """
        self._check_goes_on()
        data = drafts.message(role, content, name)
        with self._lock:
            self._calls.give_ids(data["parts"])
            self._calls.check_answers(data["parts"])
            return self._record("message", data, actor or (role if role in ("user", "assistant") else "host"))

    def model_response(
        self,
        content: object = None,
        *,
        id: str | None = None,  # noqa: A002 - the provider's word
        model: str | None = None,
        usage: object = None,
        finish_reason: str | None = None,
        provider: str | None = None,
    ) -> Appended:
        """What the model answered: text, parts, or the object (or dict) that an OpenAI or Anthropic client returned.

        Of such an object id, model, usage and finish reason are taken; what is named wins. ``usage`` takes the
        counters of docs/events.md or those of either provider. Tool calls in it are open from now on.
        """
        self._check_goes_on()
        named = {"id": id, "model": model, "finish_reason": finish_reason, "provider": provider}
        data = drafts.response(content, usage=usage, **named)
        parts = data.get("parts", ())
        with self._lock:
            self._calls.give_ids(parts)
            # A provider that runs tools of its own says their results itself.
            self._calls.check_answers(parts)
            return self._record("model.response", data, "assistant")

    def error(self, what: str | BaseException, *, type: str | None = None, where: str | None = None) -> Appended:  # noqa: A002
        """Something that failed: a text or an exception, whose class is its ``type``."""
        return self._record("error", drafts.error(what, type, where))

    # --- tools -----------------------------------------------------------------------------------

    def tool_call(
        self,
        name: str,
        arguments: object = None,
        *,
        id: str | None = None,  # noqa: A002 - the event's word
        requires: str | None = None,
    ) -> ToolCall:
        """Say that a tool is about to run. The event is on disk when this returns: run the tool then.

        ``id`` is the model's; without one it is that of the model's call of this name and these arguments that has not
        begun, else a new one. ``requires``: ``confirmation`` (a person must allow it) or ``result`` (somebody
        outside runs it). UsageError when a call of that id is open.
        """
        self._check_goes_on()
        known = drafts.call(calls.new_id() if id is None else id, name, arguments, requires)
        if self._redactor is not None:
            # As the model's call was kept, which is what it is compared with.
            known = dict(self._redactor.noted(known))
        with self._lock:
            if id is None:
                known["id"] = self._calls.next_id(name, known.get("arguments"))
            self._calls.check_free(known["id"], name)
            self._record("tool.call", known, "assistant")
        return ToolCall(self, known["id"], name)

    def tool_result(
        self,
        id: str,  # noqa: A002 - the event's word
        value: object = None,
        *,
        is_error: bool = False,
        code: str | None = None,
    ) -> Appended:
        """What an open call gave. UsageError when there is no such call, or it has its result already."""
        data = drafts.result(id, value, is_error=is_error, code=code)
        with self._lock:
            return self._record("tool.result", data, drafts.tool_actor(str(self._calls.open(id)["name"])))

    def confirm(self, id: str, approved: bool, reason: str | None = None, *, actor: str = "user") -> Appended:  # noqa: A002
        """A person's answer to a call that requires confirmation. UsageError when none is waited for."""
        data = drafts.confirmation(id, approved, reason)
        with self._lock:
            self._calls.check_waiting(id)
            return self._record("tool.confirmation", data, actor)

    # --- turns -----------------------------------------------------------------------------------

    def turn(self, id: str | None = None) -> Turn:  # noqa: A002 - the event's word
        """Begin a turn: ``with s.turn() as turn:``. Every event until its end has its id. One at a time: UsageError."""
        self._check_goes_on()
        with self._lock:
            if self._turn is not None:
                raise UsageError(f"turn {self._turn} is open", hint="A session has one turn at a time.")
            turn = Turn(self, id or calls.new_id())
            self._append(Draft("turn.start", {}, "host", turn.id))
            self._turn = turn.id
        return turn

    def end_turn(self, id: str, outcome: str, message: str | None = None) -> Appended:  # noqa: A002
        """End the open turn; `Turn` does it for you. UsageError when another one or none is open."""
        data = drafts.turn_end(outcome, message)
        with self._lock:
            if id != self._turn:
                raise UsageError(f"turn {id!a:.80} is not open")
            try:
                return self._record("turn.end", data)
            finally:
                self._turn = None

    # --- the session -----------------------------------------------------------------------------

    def update(
        self,
        *,
        title: str | None = None,
        summary: str | None = None,
        archived: bool | None = None,
        add_labels: Iterable[str] | None = None,
        remove_labels: Iterable[str] | None = None,
        actor: str = "host",
    ) -> Appended:
        """Several of the following in one event. UsageError when nothing is given.

        Refused when it only says ``archived``, and the session is so already: the branch is read for that.
        """
        data = drafts.update(
            title=title, summary=summary, archived=archived, add_labels=add_labels, remove_labels=remove_labels
        )
        if archived is not None and self.name.branch != TRUNK:
            session = Name(self.name.session)
            raise UsageError(f"{self.name} is one branch; archived is a whole session: name {session}")
        with self._lock:
            if data.keys() == {"archived"} and fold(self.chain.events(), history=False).archived is archived:
                raise Refused(
                    f"{self.name} is {'archived already' if archived else 'not archived'}; nothing was written"
                )
            return self._record("session.update", data, actor)

    def title(self, text: str) -> Appended:
        """Name the session: one line of at most 200 characters; "" removes the title."""
        return self.update(title=text)

    def summary(self, text: str) -> Appended:
        """Say what the session was about, in at most 16,384 characters; "" removes the summary."""
        return self.update(summary=text)

    def label(self, *labels: str) -> Appended:
        """Add labels, each 1 to 64 characters."""
        return self.update(add_labels=labels)

    def unlabel(self, *labels: str) -> Appended:
        """Take labels off."""
        return self.update(remove_labels=labels)

    def archive(self) -> Appended:
        """Put the session away, with all its branches: lists leave it out, and it is not resumed. On the trunk only.

        Refused when it is archived already.
        """
        return self.update(archived=True)

    def unarchive(self) -> Appended:
        """Take the session back. On the trunk only. Refused when it is not archived."""
        return self.update(archived=False)

    def terminate(self, reason: str | None = None, *, actor: str = "host") -> Appended:
        """Say that the session is over for good: `resume` refuses it, and nothing undoes it.

        A record, not a lock: what is open can still be answered and ended, and another process that opens the session
        may write to it. This object begins nothing new (Refused).
        """
        self._check_goes_on()
        return self._record("session.terminate", drafts.reason(reason), actor)

    def checkpoint(self, state: Mapping[str, Any]) -> Appended:
        """Keep the agent's own state (``scratchpad``, ``todos``, counters). Replaces all of the checkpoint before."""
        return self._record("session.checkpoint", drafts.checkpoint(state))

    def attach(
        self,
        id: str,  # noqa: A002 - the event's word
        *,
        type: str | None = None,  # noqa: A002
        uri: str | None = None,
        name: str | None = None,
    ) -> Appended:
        """Say that the session can use a resource."""
        return self._record("session.resource", drafts.resource(id, "attach", type=type, uri=uri, name=name))

    def detach(self, id: str) -> Appended:  # noqa: A002 - the event's word
        """Say that it can no more."""
        return self._record("session.resource", drafts.resource(id, "detach"))

    # --- wakes -----------------------------------------------------------------------------------

    def wake(
        self,
        due: str | datetime,
        reason: str,
        *,
        note: str | None = None,
        key: str | None = None,
        priority: str | None = None,
    ) -> Appended:
        """Queue a wake at a time. While one of the same ``key`` is queued, a second is the same one: name the first
        in `wake_done`."""
        self._check_goes_on()
        return self._record("session.wake", drafts.wake(due, reason, note=note, key=key, priority=priority))

    def wake_done(self, *seqs: int) -> Appended:
        """Say which wakes were run or dropped, by the seq of their events. Reads the branch.

        UsageError for an event that is no wake, and for a wake that does not wait: it is done or cancelled, or one of
        the same key was queued before it.
        """
        data = drafts.wake_done(seqs)
        with self._lock:
            waiting = {wake["seq"] for wake in fold(self.chain.events(), history=False).wakes}
            if other := [seq for seq in data["seqs"] if seq not in waiting]:
                raise UsageError(f"event {other[0]} of {self.name} is no wake that waits", hint=_WAITING)
            return self._record("session.wake_done", data)

    def interrupt(self, reason: str | None = None, *, actor: str = "host") -> Appended:
        """Cancel all queued wakes, and stop waiting for confirmations and results from outside."""
        return self._record("session.interrupt", drafts.reason(reason), actor)

    # --- storing ---------------------------------------------------------------------------------

    def seal(self) -> Appended:
        """Append a ``session.seal`` on all events so far: a statement that others can check without the journal.

        Signed if the session was opened with a signer. It is in git when this returns.
        """
        done = self._writer.seal()
        self._sealed_to = max(self._sealed_to, done.seq)
        return done

    def flush(self) -> None:
        """Move what is in the tail to git now."""
        self._writer.flush()

    def close(self) -> None:
        """Seal what was written if the journal's policy says so, flush, and give the lease back.

        When the seal cannot be made the events are stored all the same; the error is raised then.
        """
        # Once: a second close after one that failed has nothing left to say.
        seals, self._seals = self._seals, False
        try:
            if seals and self._writer.head and self._writer.head.seq > self._sealed_to:
                self.seal()
        finally:
            self._writer.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The error of the block says more than what closing after it says.
        with suppress(JournalError) if kind else nullcontext():
            self.close()


def _draft(item: object) -> Draft:
    """An item of a batch, with objects that stand for JSON as what they mean. UsageError for what is no draft."""
    if not isinstance(item, tuple | list) or not 2 <= len(item) <= len(Draft._fields):
        raise UsageError(f"a batch has drafts, or (type, data, actor), and this item is a {kind(item)}")
    draft = item if isinstance(item, Draft) else Draft(*item)
    if is_plain(draft.data):
        return draft
    # Of what is no JSON at all, the writer says the place.
    with suppress(UsageError):
        draft = draft._replace(data=plain(draft.data, "data"))
    return draft


def _allowed(draft: Draft) -> Draft:
    if not isinstance(draft.type, str):
        raise UsageError(f"the type of an event is text, not a {kind(draft.type)}")
    if draft.type in RESERVED_TYPES:
        raise UsageError(f"events of type {draft.type} are made by the journal, not appended")
    return draft
