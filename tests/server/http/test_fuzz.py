"""Schemathesis over the whole HTTP interface: whatever is sent, the answer is one that the document names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import FailedHealthCheck, Unsatisfiable
from schemathesis.checks import CHECKS as ALL_CHECKS
from schemathesis.checks import load_all_checks

from tests.serving import Serving, serve, test_settings, without_errors

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "6"))
"""Requests for each operation and mode."""

DOCUMENTS = ("/openapi.json", "/envs/counting/openapi.json")

CHECKS = ("status_code_conformance", "content_type_conformance", "response_schema_conformance")

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that has a recorded episode, and lets nobody wait for a slot."""
    settings = test_settings(tmp_path_factory.mktemp("data"), max_episodes=2, max_waiting=0)
    with without_errors(), serve(settings) as running:
        running.finish(running.start(options={"turns": 2}))
        yield running


def checks() -> list[Any]:
    load_all_checks()
    return [ALL_CHECKS.get_one(name) for name in CHECKS]


@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.value)
def test_every_answer_is_one_that_the_document_names(fuzzed: Serving, document: str, mode: Any) -> None:
    schema = schemathesis.openapi.from_url(f"{fuzzed.base_url}{document}")
    faults: dict[str, str] = {}
    found: list[Any] = list(schema.get_all_operations())
    operations = [one.ok() for one in found]
    assert len(operations) > 5
    for operation in operations:

        @seed(1)
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=[one for one in HealthCheck if one is not HealthCheck.filter_too_much],
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def fuzz(case: Any) -> None:
            response = case.call(timeout=20)
            assert response.status_code != 500, response.text
            case.validate_response(response, checks=checks())

        try:
            fuzz()
        except (Unsatisfiable, FailedHealthCheck):  # anything is valid there
            assert mode is schemathesis.GenerationMode.NEGATIVE, "there is always something right to send"
        except (AssertionError, BaseExceptionGroup) as error:
            faults[operation.label] = f"{type(error).__name__}: {error}"
    assert not faults, "\n\n".join(f"{label}\n{fault}" for label, fault in faults.items())


def test_the_fuzzer_sees_what_is_wrong(fuzzed: Serving) -> None:
    """An answer that the document does not name is found."""
    schema = schemathesis.openapi.from_url(f"{fuzzed.base_url}/openapi.json")
    case = schema["/health"]["GET"].Case()
    response = case.call()
    case.validate_response(response, checks=checks())
    response.status_code = 418
    with pytest.raises(BaseExceptionGroup, match="Undocumented status code"):
        case.validate_response(response, checks=checks())


def test_a_wrong_method_is_told_every_right_one(fuzzed: Serving) -> None:
    for path in ("/mcp", "/envs/counting/mcp"):
        answer = fuzzed.client.put(path)
        assert answer.status_code == 405 and answer.headers["allow"] == "DELETE, POST"
    assert fuzzed.client.delete("/health").headers["allow"] in ("GET", "GET, HEAD")
