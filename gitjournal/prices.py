"""Price tables that the user gives: our own TOML, and LiteLLM's ``model_prices_and_context_window.json`` as it is.

Floor 5, pure: bytes in, prices out (docs/prices.md). All numbers are decimal, and a price that a table does not have
is None, never 0. The first mistake in a table refuses it as a whole.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any, NamedTuple, NoReturn, Protocol

from gitjournal.errors import UsageError

#: What has a price. The first four are all tokens of a response; reasoning is a part of the output.
KINDS = ("input", "cache_read", "cache_write", "output", "reasoning")
_MILLION = Decimal(1_000_000)
_DEAREST = Decimal(10) ** 9
_DIGITS, _DECIMALS = 25, 40
#: In which no sum of costs is rounded, whatever its order: a price has few digits, and a count less than 2^53.
EXACT = Context(prec=120)


class Price(NamedTuple):
    """What one token of each kind costs; None where the table does not say."""

    input: Decimal | None = None
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    output: Decimal | None = None
    reasoning: Decimal | None = None
    #: Other prices for the whole of a response with more than so many tokens of input; the highest limit first.
    above: tuple[tuple[int, Price], ...] = ()

    def cost(self, tokens: Sequence[int]) -> tuple[Decimal, dict[str, int]]:
        """What a response costs, and the tokens without a price by kind. ``tokens`` are as in `split`."""
        limit = sum(tokens[:3])
        price = next((price for least, price in self.above if limit > least), self)
        money, unpriced = Decimal(0), {}
        *others, output, reasoning = price[:5]
        # Reasoning without a price of its own costs as other output does.
        prices = (*others, output, output if reasoning is None else reasoning)
        for kind, each, count in zip(KINDS, prices, tokens, strict=True):
            if count and each is None:
                unpriced[kind] = count
            elif count and each is not None:
                money = EXACT.add(money, EXACT.multiply(each, Decimal(count)))
        return money, unpriced


def split(usage: Sequence[int]) -> list[int]:
    """The counters of `vocabulary.USAGE` as tokens by kind, none of them counted in two."""
    given, output, read, written, reasoning = usage
    # A writer that counts cache beside the input, against docs/events.md, has no plain input less than none.
    return [max(given - read - written, 0), read, written, max(output - reasoning, 0), reasoning]


class Asked(NamedTuple):
    """A response that is to be priced: its models by falling weight, its provider (perhaps empty), and its UTC day."""

    models: tuple[str, ...]
    provider: str
    day: str


class Prices(Protocol):
    """A table of prices."""

    currency: str

    def find(self, asked: Asked) -> Price | None:
        """The price of a response; None when the table does not know its model."""


def load(raw: bytes, name: str) -> Prices:
    """The table in the content of a file. UsageError names the file and the place of the first mistake."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: byte {error.start} is not UTF-8") from None
    return _litellm(text, name) if text.lstrip().startswith("{") else _own(text, name)


def _made(prices: Mapping[str, Decimal], above: Mapping[int, Price] | None = None) -> Price:
    get, higher = prices.get, sorted((above or {}).items(), reverse=True)
    each = get("input"), get("cache_read"), get("cache_write"), get("output"), get("reasoning")
    return Price(*each, above=tuple(higher))


# --- our own table -------------------------------------------------------------------------------

_NAMES = ("name", "aliases", "prefixes", "provider", "from", "until")
_MODEL = (*_NAMES, *KINDS, "above")
_FOREVER = ("0000-00-00", "9999-99-99")


class _Entry(NamedTuple):
    place: str
    exact: tuple[str, ...]
    prefixes: tuple[str, ...]
    provider: str
    first: str
    until: str
    price: Price

    def rank(self, asked: Asked) -> tuple[int, int, int] | None:
        """How well the entry fits, the least is the best; None when it does not."""
        if not self.first <= asked.day < self.until or self.provider not in ("", asked.provider):
            return None
        for number, model in enumerate(asked.models):
            fits = [len(one) for one in self.prefixes if model.startswith(one)]
            if model in self.exact:
                return number, -len(model) - 1, not self.provider
            if fits:
                return number, -max(fits), not self.provider
        return None


class _Own:
    def __init__(self, currency: str, entries: Sequence[_Entry]) -> None:
        self.currency = currency
        self._entries = entries

    def find(self, asked: Asked) -> Price | None:
        ranked = [(rank, number) for number, entry in enumerate(self._entries) if (rank := entry.rank(asked))]
        return self._entries[min(ranked)[1]].price if ranked else None


def _own(text: str, name: str) -> Prices:
    try:
        table = tomllib.loads(text, parse_float=_decimal)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name}: {str(error) or 'too deeply nested'}") from None
    place = f"{name}: "
    _known(table, ("currency", "model"), place)
    currency = table.get("currency")
    if type(currency) is not str or not currency.strip() or len(currency) > 16:
        _wrong(place, "currency is missing, or no short text", 'Write currency = "USD".')
    models = table.get("model")
    if type(models) is not list or not all(type(one) is dict for one in models):
        _wrong(place, "there is no [[model]]")
    entries = [_entry(one, f"{name}: model {number}") for number, one in enumerate(models, 1)]
    _refuse_twins(entries)
    return _Own(currency, entries)


def _entry(table: Mapping[str, Any], place: str) -> _Entry:
    label = table.get("name")
    place = f"{place} ({label!r}): " if type(label) is str else f"{place}: "
    _known(table, _MODEL, place)
    if type(label) is not str or not label:
        _wrong(place, "name is missing, or no text")
    exact, prefixes = _texts(table, "aliases", place), _texts(table, "prefixes", place)
    provider = table.get("provider", "")
    if type(provider) is not str:
        _wrong(place, "provider is no text")
    first, until = (_day(table, key, default, place) for key, default in zip(("from", "until"), _FOREVER, strict=True))
    if first >= until:
        _wrong(place, f"until {until} is not after from {first}")
    return _Entry(place, (label, *exact), prefixes, provider, first, until, _price(table, place))


def _price(table: Mapping[str, Any], place: str) -> Price:
    """The prices of a table per million tokens, and those above some input."""
    above = table.get("above", [])
    if type(above) is not list or not all(type(one) is dict for one in above):
        _wrong(place, "above is not [[model.above]]")
    higher: dict[int, Price] = {}
    for number, one in enumerate(above, 1):
        there = f"{place}above {number}: "
        _known(one, ("tokens", *KINDS), there)
        limit = one.get("tokens")
        if type(limit) is not int or limit < 1 or limit in higher:
            _wrong(there, "tokens is not a number of its own, 1 or more")
        higher[limit] = _price(one, there)
    for kind in ("input", "output"):
        if kind not in table:
            _wrong(place, f"{kind} is missing")
    each = {kind: _number(table[kind], f"{place}{kind}") / _MILLION for kind in KINDS if kind in table}
    return _made(each, higher)


def _refuse_twins(entries: Sequence[_Entry]) -> None:
    """Two entries must not say different things of one model."""
    before: dict[tuple[bool, str], list[_Entry]] = defaultdict(list)
    for entry in entries:
        for key in [*((True, name) for name in entry.exact), *((False, name) for name in entry.prefixes)]:
            for other in before[key]:
                together = entry.first < other.until and other.first < entry.until
                if together and entry is not other and entry.provider == other.provider:
                    place = other.place.rpartition(": ")[0].rpartition(": ")[2]
                    _wrong(entry.place, f"{key[1]!r} has a price already, {place}")
            before[key].append(entry)


def _texts(table: Mapping[str, Any], key: str, place: str) -> tuple[str, ...]:
    found = table.get(key, [])
    if type(found) is not list or not all(type(one) is str and one for one in found):
        _wrong(place, f"{key} is not an array of texts")
    return tuple(found)


def _day(table: Mapping[str, Any], key: str, default: str, place: str) -> str:
    found = table.get(key)
    if found is None:
        return default
    if type(found) is not date or isinstance(found, datetime):
        _wrong(place, f"{key} is no day", f"Write {key} = 2026-01-31, without quotes.")
    return found.isoformat()


# --- LiteLLM's table -----------------------------------------------------------------------------

_FIELDS = {
    "input_cost_per_token": "input",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write",
    "output_cost_per_token": "output",
    "output_cost_per_reasoning_token": "reasoning",
}
_ABOVE = re.compile("(.+)_above_([0-9]{1,9})k_tokens")
#: The entry that explains the others.
_SAMPLE = "sample_spec"
#: Providers that OpenTelemetry and LiteLLM call differently.
_PROVIDERS = {
    "aws.bedrock": "bedrock",
    "azure.ai.inference": "azure_ai",
    "azure.ai.openai": "azure",
    "gcp.gemini": "gemini",
    "gcp.gen_ai": "gemini",
    "gcp.vertex_ai": "vertex_ai",
    "mistral_ai": "mistral",
    "moonshot_ai": "moonshot",
    "x_ai": "xai",
}


class _LiteLLM:
    currency = "USD"

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = prices

    def find(self, asked: Asked) -> Price | None:
        provider = _PROVIDERS.get(asked.provider, asked.provider)
        for model in asked.models:
            for key in (f"{provider}/{model}", model):
                if (found := self._prices.get(key)) is not None:
                    return found
        return None


def _litellm(text: str, name: str) -> Prices:
    try:
        table = json.loads(text, parse_float=_decimal, parse_constant=_decimal, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name}: {str(error) or 'too deeply nested'}") from None
    prices = {}
    for model, entry in table.items():
        if type(entry) is not dict:
            _wrong(f"{name}: {model!r}: ", "is no object")
        if model != _SAMPLE and (price := _listed(entry, f"{name}: {model!r}: ")) is not None:
            prices[model] = price
    return _LiteLLM(prices)


def _listed(entry: Mapping[str, Any], place: str) -> Price | None:
    """The price in an entry; None for models that are paid by the picture, second or page."""
    base: dict[str, Decimal] = {}
    above: dict[int, dict[str, Decimal]] = {}
    for key, kind, limit in _token_fields(entry):
        prices = base if limit is None else above.setdefault(limit, {})
        prices[kind] = _number(entry[key], f"{place}{key}")
    if "input" not in base and "output" not in base:
        return None
    return _made(base, {limit: _made({**base, **prices}) for limit, prices in above.items()})


def _token_fields(entry: Mapping[str, Any]) -> Iterator[tuple[str, str, int | None]]:
    """(key, kind of token, limit of input above which it holds) of the members that we read."""
    for key, value in entry.items():
        beyond = _ABOVE.fullmatch(key)
        kind = _FIELDS.get(beyond[1] if beyond else key)
        if kind is not None and value is not None:
            yield key, kind, int(beyond[2]) * 1000 if beyond else None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is there twice")
    return found


# --- mistakes ------------------------------------------------------------------------------------


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text[:40]!r} is no number") from None


def _number(value: Any, what: str) -> Decimal:
    if type(value) not in (int, Decimal):
        _wrong(what, f" is {_kind(value)}, not a number")
    number = Decimal(value)
    _, digits, exponent = number.as_tuple()
    if not number.is_finite() or number < 0:
        _wrong(what, f" is {str(value)[:40]}, not 0 or more")
    if number > _DEAREST or len(digits) > _DIGITS or (type(exponent) is int and exponent < -_DECIMALS):
        _wrong(what, f" is more than {_DEAREST:,}, or has more than {_DIGITS} digits or {_DECIMALS} decimals")
    return number


def _kind(value: Any) -> str:
    kinds = {str: "text", bool: "true or false", list: "an array", dict: "a table"}
    return kinds.get(type(value), f"a {type(value).__name__}")


def _known(table: Mapping[str, Any], names: Collection[str], place: str) -> None:
    for key in table:
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1)
            _wrong(place, f"unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def _wrong(place: str, what: str, hint: str = "") -> NoReturn:
    raise UsageError(f"{place}{what}", hint=hint)
