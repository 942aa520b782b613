"""The validator's own collector and graders at work on a live server; runs where ``openenv`` is.

peer_graders.py BASE_URL PACKAGE_ROOT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

from openenv.validation.graders.runtime.basic import (
    ObservationSchemaGrader,
    RewardWellFormedGrader,
    StateContractGrader,
)
from openenv.validation.parsers.openenv_yaml import OpenEnvYamlParser
from openenv.validation.runtime.collector import collect_runtime_evidence
from openenv.validation.runtime.contracts import load_runtime_plan


def main() -> None:
    """Collect and grade."""
    base_url, root = sys.argv[1], Path(sys.argv[2])
    manifest = OpenEnvYamlParser().parse(root)
    plan = load_runtime_plan(root, manifest.execution)
    evidence = collect_runtime_evidence(base_url, plan, episode_timeout_s=60)
    subject = SimpleNamespace(manifest=manifest, runtime_evidence=evidence)
    graders = (RewardWellFormedGrader(), ObservationSchemaGrader(), StateContractGrader())
    results = [grader.run(subject) for grader in graders]
    print(
        json.dumps(
            {
                "failure": evidence.failure_reason,
                "exchanges": [row.operation for row in evidence.exchanges],
                "done": json.loads(evidence.exchanges[-2].response_json)["data"]["done"],
                "results": {one.check_id: [str(one.status.value), one.evidence] for one in results},
            }
        )
    )


if __name__ == "__main__":
    main()
