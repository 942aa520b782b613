"""What was not asked for for longest is let go of first."""

from __future__ import annotations

from server.lru_cache import LruCache


def test_the_one_that_was_not_used_for_longest_gives_way() -> None:
    kept: LruCache[str, int] = LruCache(2)
    kept.keep("a", 1)
    kept.keep("b", 2)
    assert kept.get("a") == 1  # and so "b" is the older one
    kept.keep("c", 3)
    assert [kept.get(key) for key in "abc"] == [1, None, 3]


def test_a_value_that_is_kept_anew_takes_no_second_place() -> None:
    kept: LruCache[str, int] = LruCache(2)
    kept.keep("a", 1)
    kept.keep("b", 2)
    kept.keep("a", 4)
    kept.keep("c", 3)
    assert [kept.get(key) for key in "abc"] == [4, None, 3]
