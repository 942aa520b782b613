"""Providers and their prices: dated, complete, and never guessed."""

from __future__ import annotations

from datetime import date

import pytest

from spectator.llm.chat import Usage
from spectator.llm.endpoints import PROVIDERS, Price, check_base_url
from spectator.policies.captains import parse_captains

TABLE = '[captains.x]\nlabel = "x"\nprovider = "{}"\nmodel = "{}"\n'


def test_every_token_is_charged_once_at_its_own_price() -> None:
    price = Price(input=2.0, cached_input=0.2, cache_write=2.5, output=10.0, per=1_000)
    used = Usage(tokens_in=1_000, tokens_out=100, cached_in=600, cache_written=300)
    assert price.cost(used) == pytest.approx(0.1 * 2.0 + 0.6 * 0.2 + 0.3 * 2.5 + 0.1 * 10.0)


def test_cached_tokens_without_a_price_of_their_own_cost_as_much_as_others() -> None:
    assert Price(input=2.0, output=1.0).cost(Usage(1_000_000, 0, cached_in=900_000)) == 2.0


def test_an_endpoint_that_counts_more_cached_than_there_are_earns_us_nothing() -> None:
    price = Price(input=2.0, cached_input=0.2, output=1.0)
    assert price.cost(Usage(10, 0, cached_in=50, cache_written=50)) == pytest.approx(10 * 0.2 / 1e6)


@pytest.mark.parametrize("wrong", [{"input": -1.0}, {"output": float("nan")}, {"per": 0}])
def test_a_price_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="prices must be 0 or more"):
        Price(**{"input": 1.0, "output": 1.0, **wrong})  # type: ignore[arg-type]


def test_published_prices_have_their_day_and_say_so() -> None:
    published = [price for one in PROVIDERS.values() for price in one.prices.values()]
    assert published and all(price.as_of and price.as_of <= date(2026, 11, 22) for price in published)
    assert str(published[0]).endswith(f"as published on {published[0].as_of}")
    assert not any(one.prices for one in PROVIDERS.values() if one.local)


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_provider_fills_in_what_a_captain_does_not_say(name: str) -> None:
    provider = PROVIDERS[name]
    captain = parse_captains(TABLE.format(name, "m-1"), "mine.toml")["llm:x"]
    assert check_base_url(provider.base_url) == captain.base_url == provider.base_url
    assert (captain.form, captain.api_key_env) == (provider.form, provider.key_env)
    assert (captain.stream, captain.send_seed) == (provider.stream, provider.send_seed)
    assert captain.price is None
    own = parse_captains(TABLE.format(name, "m-1") + "stream = true\nprice_in = 3.0", "mine.toml")["llm:x"]
    assert own.stream and own.price == Price(input=3.0, output=0.0)


def test_a_dated_model_has_the_price_of_its_name_and_another_model_has_none() -> None:
    priced = parse_captains(TABLE.format("openai", "gpt-5-mini-2025-08-07"), "mine.toml")["llm:x"].price
    assert priced == PROVIDERS["openai"].prices["gpt-5-mini"]
    assert PROVIDERS["openai"].price_of("gpt-5.5") is None
    elsewhere = TABLE.format("openai", "gpt-5-mini") + 'base_url = "https://example.org/v1"'
    assert parse_captains(elsewhere, "mine.toml")["llm:x"].price is None


def test_a_provider_that_nobody_knows_is_refused_with_those_that_there_are() -> None:
    from spectator.errors import ConfigurationError

    with pytest.raises(ConfigurationError, match=r"unknown provider; use openai, anthropic, gemini"):
        parse_captains(TABLE.format("acme", "m"), "mine.toml")
