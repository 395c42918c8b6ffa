"""Price tables: what each of the two forms says, and that no mistake in one passes."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitjournal.errors import UsageError
from gitjournal.prices import KINDS, Asked, Price, Prices, load, split

M2 = '[[model]]\nname = "m-2"\ninput = 3\noutput = 15\n'
USD = 'currency = "USD"\n'


def own(text: str) -> Prices:
    return load((USD + text).encode(), "prices.toml")


def lite(**models: Any) -> Prices:
    return load(json.dumps(models).encode(), "prices.json")


def asked(*models: str, provider: str = "", day: str = "2026-06-01") -> Asked:
    return Asked(models, provider, day)


def each(prices: Prices, *models: str, **more: str) -> Decimal | None:
    """What a million tokens of plain input cost."""
    price = prices.find(asked(*models, **more))
    return price.input * 1_000_000 if price and price.input is not None else None


# --- what tokens cost ----------------------------------------------------------------------------


def test_no_token_counts_twice() -> None:
    # input, output, read, written, reasoning of docs/events.md: input includes cache, output includes reasoning.
    assert split([1000, 300, 700, 200, 100]) == [100, 700, 200, 200, 100]
    assert split([100, 10, 700, 0, 20]) == [0, 700, 0, 0, 20]


def test_what_has_no_price_is_told_and_not_nothing() -> None:
    price = Price(input=Decimal(2), output=Decimal(3))
    assert price.cost([10, 5, 0, 1, 0]) == (Decimal(23), {"cache_read": 5})
    assert price.cost([10, 0, 0, 1, 0]) == (Decimal(23), {})
    assert Price().cost([1, 2, 3, 4, 5]) == (Decimal(0), dict(zip(KINDS, (1, 2, 3, 4, 5), strict=True)))


def test_reasoning_without_a_price_of_its_own_costs_as_output() -> None:
    assert Price(output=Decimal(3)).cost([0, 0, 0, 1, 2]) == (Decimal(9), {})
    assert Price(output=Decimal(3), reasoning=Decimal(5)).cost([0, 0, 0, 1, 2]) == (Decimal(13), {})


def test_a_price_of_nothing_is_a_price() -> None:
    assert Price(input=Decimal(0), output=Decimal(0)).cost([5, 0, 0, 5, 0]) == (Decimal(0), {})


@given(st.lists(st.tuples(st.integers(0, 2**53), st.decimals(0, 10**9, places=15, allow_nan=False)), max_size=30))
def test_sums_are_exact_in_any_order(pairs: list[tuple[int, Decimal]]) -> None:
    from gitjournal.prices import EXACT

    costs = [Price(input=price).cost([count, 0, 0, 0, 0])[0] for count, price in pairs]
    forth = back = Decimal(0)
    for one, other in zip(costs, reversed(costs), strict=True):
        forth, back = EXACT.add(forth, one), EXACT.add(back, other)
    assert forth == back


# --- our own table -------------------------------------------------------------------------------


def test_a_table_of_ours() -> None:
    prices = own(
        '[[model]]\nname = "m-2"\naliases = ["m-2-latest"]\nprefixes = ["m-2-2026"]\n'
        "input = 3.00\noutput = 15\ncache_read = 0.3\ncache_write = 3.75\nreasoning = 20\n"
    )
    found = prices.find(asked("m-2"))
    assert found is not None and found[:5] == (
        *map(Decimal, ("0.000003", "3E-7", "0.00000375", "0.000015", "0.00002")),
    )
    assert prices.currency == "USD"
    for name, known in {"m-2-latest": 1, "m-2-20260101": 1, "m-2-x": 0, "M-2": 0, "m": 0, "": 0}.items():
        assert (prices.find(asked(name)) is not None) == bool(known), name
    assert prices.find(asked()) is None


def test_the_better_name_wins() -> None:
    prices = own(
        '[[model]]\nname = "a"\nprefixes = ["m"]\ninput = 1\noutput = 1\n'
        '[[model]]\nname = "b"\nprefixes = ["m-2"]\ninput = 2\noutput = 1\n'
        '[[model]]\nname = "c"\nprefixes = ["m-2-x"]\ninput = 5\noutput = 1\n'
        '[[model]]\nname = "m-2-x"\ninput = 3\noutput = 1\n'
        '[[model]]\nname = "m-2-x"\nprovider = "azure"\ninput = 4\noutput = 1\n'
    )
    assert [each(prices, name) for name in ("m-1", "m-2", "m-2-x", "m-2-xy")] == [1, 2, 3, 5]
    assert each(prices, "m-2-x", provider="azure") == 4 and each(prices, "m-2-x", provider="else") == 3
    # The model that answered counts before the one that was asked for.
    assert each(prices, "m-1", "m-2-x") == 1 and each(prices, "unknown", "m-2-x") == 3


def test_a_price_holds_from_a_day_until_another() -> None:
    prices = own(
        '[[model]]\nname = "m"\nuntil = 2026-03-01\ninput = 1\noutput = 1\n'
        '[[model]]\nname = "m"\nfrom = 2026-03-01\nuntil = 2026-04-01\ninput = 2\noutput = 1\n'
    )
    days = {"1970-01-01": 1, "2026-02-28": 1, "2026-03-01": 2, "2026-03-31": 2, "2026-04-01": None}
    assert {day: each(prices, "m", day=day) for day in days} == days


def test_more_input_can_cost_more_for_the_whole_response() -> None:
    prices = own(M2 + "[[model.above]]\ntokens = 200_000\ninput = 6\noutput = 30\n")
    price = prices.find(asked("m-2"))
    assert price is not None
    assert price.cost([200_000, 0, 0, 10, 0])[0] * 1_000_000 == 600_150
    assert price.cost([1, 200_000, 0, 10, 0]) == (Decimal("0.000306"), {"cache_read": 200_000})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "prices.toml: there is no [[model]]"),
        ("model = 3", "prices.toml: there is no [[model]]"),
        ("models = []", "unknown key 'models'; did you mean 'model'?"),
        (M2.replace("input", "inptu"), "prices.toml: model 1 ('m-2'): unknown key 'inptu'; did you mean 'input'?"),
        (M2.replace("3", "-3"), "prices.toml: model 1 ('m-2'): input is -3, not 0 or more"),
        (M2.replace("15", "-0.1"), "output is -0.1, not 0 or more"),
        (M2.replace("3", '"3"'), "prices.toml: model 1 ('m-2'): input is text, not a number"),
        (M2.replace("3", "true"), "input is true or false, not a number"),
        (M2.replace("3", "[3]"), "input is an array, not a number"),
        (M2.replace("3", "2026-01-01"), "input is a date, not a number"),
        (M2.replace("3", "inf"), "input is Infinity, not 0 or more"),
        (M2.replace("3", "nan"), "input is NaN, not 0 or more"),
        (M2.replace("3", "1e12"), "input is more than"),
        (M2.replace("3", "1e-60"), "has more than 25 digits or 40 decimals"),
        (M2.replace("output = 15", ""), "prices.toml: model 1 ('m-2'): output is missing"),
        (M2.replace('name = "m-2"', ""), "prices.toml: model 1: name is missing, or no text"),
        (M2.replace('"m-2"', "7"), "prices.toml: model 1: name is missing, or no text"),
        (M2 + 'aliases = "x"\n', "aliases is not an array of texts"),
        (M2 + 'prefixes = [""]\n', "prefixes is not an array of texts"),
        (M2 + "provider = 1\n", "provider is no text"),
        (M2 + 'from = "2026-01-01"\n', "from is no day"),
        (M2 + "until = 2026-01-01T00:00:00Z\n", "until is no day"),
        (M2 + "from = 2026-02-01\nuntil = 2026-01-01\n", "until 2026-01-01 is not after from 2026-02-01"),
        (M2 + M2, "prices.toml: model 2 ('m-2'): 'm-2' has a price already, model 1 ('m-2')"),
        (M2 + M2.replace('"m-2"', '"x"\naliases = ["m-2"]'), "'m-2' has a price already"),
        (M2 + "above = 3\n", "above is not [[model.above]]"),
        (M2 + "[[model.above]]\ninput = 1\noutput = 1\n", "above 1: tokens is not a number of its own, 1 or more"),
        (M2 + "[[model.above]]\ntokens = 5\ninput = 1\n", "above 1: output is missing"),
        (M2 + "[[model.above]]\ntokens = 5\nfrom = 2026-01-01\ninput = 1\noutput = 1\n", "above 1: unknown key 'from'"),
        (M2 + "input = 4\n", "prices.toml: Cannot overwrite a value"),
        ("model = [", "prices.toml: Invalid value"),
        ("x = " + "[" * 5000, "prices.toml: "),
        ("x = " + "9" * 5000, "prices.toml: "),
    ],
)
def test_a_mistake_is_one_line_with_its_place(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        own(text)
    assert said in str(refused.value) and str(refused.value).startswith("prices.toml: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("currency", ["", 'currency = ""\n', "currency = 5\n", f'currency = "{"x" * 17}"\n'])
def test_a_table_says_its_currency(currency: str) -> None:
    with pytest.raises(UsageError, match="currency"):
        load((currency + M2).encode(), "prices.toml")


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(UsageError, match=r"prices.toml: byte 2 is not UTF-8"):
        load(b"ab\xff", "prices.toml")


# --- LiteLLM's table -----------------------------------------------------------------------------

SAMPLE: dict[str, Any] = {
    "sample_spec": {"max_tokens": "LEGACY parameter", "input_cost_per_token": 0.0, "litellm_provider": "one of ..."},
    "claude-x": {
        "cache_creation_input_token_cost": 3.75e-06,
        "cache_creation_input_token_cost_above_1hr": 6e-06,
        "cache_read_input_token_cost": 3e-07,
        "input_cost_per_token": 3e-06,
        "input_cost_per_token_batches": 1.5e-06,
        "litellm_provider": "anthropic",
        "mode": "chat",
        "output_cost_per_token": 1.5e-05,
        "supports_vision": True,
    },
    "gemini/g-pro": {
        "cache_read_input_token_cost": None,
        "input_cost_per_token": 1.25e-06,
        "input_cost_per_token_above_200k_tokens": 2.5e-06,
        "input_cost_per_token_above_200k_tokens_priority": 9.9e-06,
        "output_cost_per_token": 1e-05,
        "output_cost_per_token_above_200k_tokens": 1.5e-05,
        "output_cost_per_reasoning_token": 2e-05,
    },
    "azure/gpt-z": {"input_cost_per_token": 2e-06, "output_cost_per_token": 8e-06},
    "gpt-z": {"input_cost_per_token": 1e-06, "output_cost_per_token": 4e-06},
    "dall-e": {"litellm_provider": "openai", "output_cost_per_image": 0.04},
}


def test_litellms_table_as_it_is() -> None:
    prices = lite(**SAMPLE)
    assert prices.currency == "USD"
    wanted = (*map(Decimal, ("0.000003", "3E-7", "0.00000375", "0.000015")), None, ())
    assert prices.find(asked("claude-x", provider="anthropic")) == wanted
    found = prices.find(asked("g-pro", provider="gcp.gemini"))
    assert found is not None and found.cache_read is None and found.reasoning == Decimal("0.00002")
    assert found.cost([200_000, 0, 0, 10, 0])[0] == Decimal("0.2501")
    assert found.cost([200_001, 0, 0, 10, 0])[0] == Decimal("0.5001525")
    assert each(prices, "gpt-z", provider="azure.ai.openai") == 2 and each(prices, "gpt-z", provider="openai") == 1
    assert each(prices, "gemini/g-pro") == Decimal("1.25")
    for unknown in ("g-pro", "dall-e", "sample_spec", "claude", ""):
        assert prices.find(asked(unknown)) is None


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"input_cost_per_token": "3e-06"}, "prices.json: 'm': input_cost_per_token is text, not a number"),
        ({"output_cost_per_token": -1}, "prices.json: 'm': output_cost_per_token is -1, not 0 or more"),
        ({"input_cost_per_token_above_200k_tokens": []}, "input_cost_per_token_above_200k_tokens is an array"),
        (3, "prices.json: 'm': is no object"),
    ],
)
def test_a_mistake_in_litellms_table(entry: Any, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        lite(m=entry)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "raw",
    [b'{"a": }', b'{"m": {"input_cost_per_token": NaN}}', b'{"a": {}, "a": {}}', b'{"a":' * 5000, b'{"a": 1e999}'],
)
def test_json_that_is_none(raw: bytes) -> None:
    with pytest.raises(UsageError, match=r"^prices\.json: ") as refused:
        load(raw, "prices.json")
    assert "\n" not in str(refused.value)


def test_the_page_shows_a_table_that_can_be_read() -> None:
    page = (Path(__file__).resolve().parents[1] / "docs" / "prices.md").read_text(encoding="utf-8")
    text = page.split("```toml\n", 1)[1].split("```", 1)[0]
    prices = load(text.encode(), "prices.toml")
    assert each(prices, "m-2", day="2026-01-01") == 3


def test_a_table_of_an_editor_that_writes_a_bom_is_read() -> None:
    raw = b"\xef\xbb\xbf" + ('currency = "EUR"\n' + M2).encode()
    assert load(raw, "prices.toml").currency == "EUR"
