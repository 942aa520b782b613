"""The files to deploy with: every setting, port, route and metric that they name is the server's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from server.settings import Settings
from server.trouble import KINDS
from spectator.cli import main as command_line
from tests.openenv.dockerfile import read
from tests.serving import ROOT, Serving, serve, test_settings, until

DEPLOY = ROOT / "deploy"
MANIFESTS = DEPLOY / "kubernetes"
TOKEN = "an-operator-s-token"

PROMETHEUS = {"up"}
"""Metrics of Prometheus itself."""

WORDS = {
    "sum", "by", "rate", "max", "histogram_quantile", "instance", "le", "code", "limit", "reason", "job",
    "spectator", "m", "h", "changes", "increase", "kind",
}  # fmt: skip
"""What a query has beside names of metrics."""


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def filled_in(text: str, variables: dict[str, str]) -> str:
    """``text`` as compose reads it: ``${NAME:?why}`` and ``${NAME:-otherwise}`` replaced."""

    def value(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        if variables.get(name):
            return variables[name]
        assert kind == ":-", f"{name} is empty: {rest}"
        return rest

    return re.sub(r"\$\{(\w+)(:[?-])([^}]*)\}", value, text)


def example() -> dict[str, str]:
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return {name: value for name, _, value in pairs}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    secrets = {"POSTGRES_PASSWORD": "abc123", "OPERATOR_TOKEN": TOKEN, "GRAFANA_PASSWORD": "def456"}
    composed: dict[str, Any] = yaml.safe_load(
        filled_in((ROOT / "compose.yaml").read_text(encoding="utf-8"), {**example(), **secrets})
    )
    return composed


@pytest.fixture(scope="module")
def port() -> int:
    """Where the image's server listens."""
    return int(read(ROOT / "Dockerfile")[-1].variables()["SPECTATOR_PORT"])


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serve(test_settings(tmp_path_factory.mktemp("data"), operator_token=TOKEN)) as running:
        yield running


def servers(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: one for name, one in compose["services"].items() if one.get("build")}


def test_the_servers_of_compose_are_set_alike_and_by_settings_that_exist(compose: dict[str, Any]) -> None:
    found = servers(compose)
    assert len(found) == 2
    first, second = (
        Settings.from_environ({name: str(text) for name, text in one["environment"].items()})
        for one in found.values()
    )
    assert first == second
    assert first.journal_url is not None
    url = first.journal_url.get_secret_value()
    database = compose["services"]["postgres"]["environment"]
    assert url == "postgresql://{user}:{password}@postgres:5432/{name}".format(
        user=database["POSTGRES_USER"], password=database["POSTGRES_PASSWORD"], name=database["POSTGRES_DB"]
    )
    assert first.trusted_hops == 1


def test_each_server_of_compose_has_a_folder_of_its_own_that_it_may_write(compose: dict[str, Any]) -> None:
    volumes = [one["volumes"] for one in servers(compose).values()]
    assert len({str(one) for one in volumes}) == 2
    home = "/home/spectator"
    assert all(one[0].endswith(f":{home}") for one in volumes), "a new volume belongs to root elsewhere"
    assert any("--create-home spectator" in one.text for one in read(ROOT / "Dockerfile")[-1].all("RUN"))
    for one in servers(compose).values():
        assert one["environment"]["SPECTATOR_DATA_DIR"].startswith(f"{home}/")


def test_the_image_can_open_a_journal_in_postgresql() -> None:
    installing = [one.text for one in read(ROOT / "Dockerfile")[0].all("RUN")]
    assert re.search(r"'\.\[[^]]*\bpostgres\b", installing[-1])


def test_no_secret_is_kept_and_none_is_defaulted(compose: dict[str, Any]) -> None:
    empty = [name for name, value in example().items() if not value]
    assert empty == ["POSTGRES_PASSWORD", "OPERATOR_TOKEN", "GRAFANA_PASSWORD"]
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    for name in empty:
        with pytest.raises(AssertionError, match=f"{name} is empty"):
            filled_in(text, {other: "x" for other in example() if other != name})
    assert ".env" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_what_compose_mounts_is_there(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert (ROOT / source).is_file() if source.startswith("./") else source in compose["volumes"]


def test_the_proxy_and_prometheus_know_the_servers_of_compose(compose: dict[str, Any], port: int) -> None:
    addresses = [f"{name}:{port}" for name in servers(compose)]
    proxy = compose["services"]["proxy"]
    assert proxy["environment"]["SERVERS"].split() == addresses
    assert set(re.findall(r"\{\$(\w+)", (DEPLOY / "Caddyfile").read_text())) == set(proxy["environment"])
    (job,) = load(DEPLOY / "prometheus.yml")["scrape_configs"]
    assert job["static_configs"] == [{"targets": addresses}]
    (secret,) = compose["services"]["prometheus"]["secrets"]
    assert job["authorization"] == {"credentials_file": f"/run/secrets/{secret}"}


def test_what_is_asked_of_servers_answers(serving: Serving) -> None:
    paths = re.findall(r"health_uri (\S+)", (DEPLOY / "Caddyfile").read_text())
    container = load(MANIFESTS / "deployment.yaml")["spec"]["template"]["spec"]["containers"][0]
    paths += [container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")]
    assert paths == ["/readyz", "/health", "/health", "/readyz"]
    for path in paths:
        assert serving.client.get(path).status_code == 200
    (job,) = load(DEPLOY / "prometheus.yml")["scrape_configs"]
    assert serving.client.get(job["metrics_path"]).status_code == 401
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert serving.client.get(job["metrics_path"], headers=bearer).status_code == 200


def with_size(serving: Serving) -> str | None:
    text = serving.client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).text
    return text if "spectator_journal_bytes" in text else None


def check_queries(serving: Serving, queries: list[str]) -> None:
    """Every metric that the queries name is one of the server's."""
    text = until("the size of the journal", lambda: with_size(serving))
    there = set(re.findall(r"^# TYPE (\w+)", text, re.M)) | set(re.findall(r"^(\w+)[{ ]", text, re.M))
    for query in queries:
        named = set(re.findall(r"[a-z_]+", re.sub(r'"[^"]*"', "", query))) - WORDS
        assert named and named <= there | PROMETHEUS, f"{query}: there is no {named - there}"


def seconds(duration: str) -> int:
    return int(duration[:-1]) * {"s": 1, "m": 60}[duration[-1]]


def test_each_alert_has_its_section_and_comes_within_five_minutes(serving: Serving) -> None:
    rules = [one for group in load(DEPLOY / "alerts.yml")["groups"] for one in group["rules"]]
    check_queries(serving, [one["expr"] for one in rules])
    names = [one["alert"] for one in rules]
    named = {kind for one in rules for kind in re.findall(r'kind="([^"]+)"', one["expr"])}
    assert named <= set(KINDS) <= set(names), "every kind of trouble has its alert"
    text = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## )", text, re.M | re.S))
    assert set(sections) == set(names)
    for name, section in sections.items():
        assert section.startswith("**It means** ") and "**Look at** " in section and "**Do** " in section
        assert f"\n| {name} | " in text, "it was tried"
    prometheus = load(DEPLOY / "prometheus.yml")
    every = [seconds(prometheus["global"][name]) for name in ("scrape_interval", "evaluation_interval")]
    for one in rules:
        assert one["annotations"]["runbook"] == f"docs/runbook.md#{one['alert']}"
        assert sum(every) + seconds(one.get("for", "0s")) < 5 * 60
    (loaded,) = prometheus["rule_files"]
    mounted = load(ROOT / "compose.yaml")["services"]["prometheus"]["volumes"]
    assert f"./deploy/alerts.yml:{loaded}:ro" in mounted


def test_the_dashboard_shows_metrics_that_there_are(serving: Serving) -> None:
    board = json.loads((DEPLOY / "grafana" / "spectator.json").read_text(encoding="utf-8"))
    (source,) = load(DEPLOY / "grafana" / "datasources.yaml")["datasources"]
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(queries) >= 12
    check_queries(serving, queries)
    assert {panel["datasource"]["uid"] for panel in board["panels"]} == {source["uid"]}
    (provider,) = load(DEPLOY / "grafana" / "dashboards.yaml")["providers"]
    assert provider["options"]["path"] == "/etc/grafana/dashboards"


def manifests() -> dict[str, dict[str, Any]]:
    names = load(MANIFESTS / "kustomization.yaml")["resources"]
    return {one["kind"]: one for one in (load(MANIFESTS / name) for name in names)}


def test_the_manifests_name_each_other(port: int) -> None:
    found = manifests()
    assert set(found) == {"Deployment", "Service", "Ingress", "PodDisruptionBudget"}
    deployment, service = found["Deployment"]["spec"], found["Service"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == service["spec"]["selector"] == labels
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    (container,) = deployment["template"]["spec"]["containers"]
    (listening,) = container["ports"]
    assert listening["containerPort"] == port
    assert service["spec"]["ports"][0]["targetPort"] == listening["name"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == listening["name"]
    (rule,) = found["Ingress"]["spec"]["rules"]
    backend = rule["http"]["paths"][0]["backend"]["service"]
    assert backend == {
        "name": service["metadata"]["name"],
        "port": {"name": service["spec"]["ports"][0]["name"]},
    }
    assert found["PodDisruptionBudget"]["spec"]["minAvailable"] < deployment["replicas"]


def test_the_deployment_sets_what_is_a_setting_and_keeps_no_secret() -> None:
    pod = manifests()["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    example = load(MANIFESTS / "secret.example.yaml")
    values = {"journal-url": "postgresql://u:p@host/db", "operator-token": TOKEN}
    assert set(values) == set(example["stringData"])
    environ = {}
    for one in container["env"]:
        secret = one.get("valueFrom", {}).get("secretKeyRef")
        assert secret is None or secret["name"] == example["metadata"]["name"]
        environ[one["name"]] = one["value"] if secret is None else values[secret["key"]]
    settings = Settings.from_environ(environ)
    assert settings.journal_url is not None and settings.operator_token is not None
    (mount,) = container["volumeMounts"]
    assert settings.data_dir.is_relative_to(mount["mountPath"])
    assert "secret.example.yaml" not in load(MANIFESTS / "kustomization.yaml")["resources"]
    for text in example["stringData"].values():
        assert re.search(r"[A-Z_]{4,}", text), "an example holds no secret"


def test_a_pod_outlives_its_server_s_leaving() -> None:
    pod = manifests()["Deployment"]["spec"]["template"]["spec"]
    pause = int(pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
    grace = Settings.from_environ({}).shutdown_grace_s
    assert pod["terminationGracePeriodSeconds"] >= pause + 2 * grace + 10


def test_the_job_of_workers_is_a_command_that_there_is_and_keeps_no_secret() -> None:
    """Its command is taken by the command line, which then asks for the database that there is not."""
    job = load(MANIFESTS / "rollouts-job.yaml")["spec"]
    assert job["completionMode"] == "Indexed"
    assert job["completions"] == job["parallelism"]
    (container,) = job["template"]["spec"]["containers"]
    program, *arguments = container["command"]
    assert program == "spectator"
    url = "postgresql://u:p@127.0.0.1:1/db"
    told = CliRunner().invoke(command_line, arguments, env={"SPECTATOR_JOURNAL_URL": url})
    assert (told.exit_code, "127.0.0.1:1/db cannot be opened" in told.output) == (1, True), told.output
    deployment = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    there = {one["name"]: one for one in deployment["env"]}
    for one in container["env"]:
        assert "secretKeyRef" in one["valueFrom"]
        assert one["name"] not in there or one == there[one["name"]]
