"""A Ray cluster of two nodes on this machine, one processor each, until standard input is closed.

``python -m tests.rollouts.workers.ray_nodes`` with an interpreter that has Ray; says the cluster's address
and the process of each node's raylet, as one line of JSON.
"""

from __future__ import annotations

import json
import sys

from ray.cluster_utils import Cluster


def main() -> None:
    """Start the nodes, and end them with whoever started this."""
    shape = {"num_cpus": 1, "object_store_memory": 80 * 1024 * 1024}
    cluster = Cluster(initialize_head=True, head_node_args={**shape, "include_dashboard": False})
    cluster.add_node(**shape)
    try:
        raylets = [node.all_processes["raylet"][0].process.pid for node in cluster.list_all_nodes()]
        print(json.dumps({"address": cluster.address, "raylets": raylets}), flush=True)
        sys.stdin.read()
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
