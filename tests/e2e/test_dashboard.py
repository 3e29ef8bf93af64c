"""The dashboard and the alert rules of packaging/grafana use names and labels that /metrics really has."""
import contextlib
import json
import re
import shutil
import subprocess
import threading
import urllib.error
import urllib.request

import pytest
from scripted_upstream import CONFIG, TEMPLATE, Upstream, call
from serving import ROOT, free_port, serving
from test_tools import asked

FOLDER = ROOT / "packaging" / "grafana"
DASHBOARD = json.loads((FOLDER / "tenon-dashboard.json").read_text())
RULES = (FOLDER / "tenon-alerts.yml").read_text()
TOOL = {"type": "function", "function": {"name": "book", "parameters": {
    "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}}


def queries():
    """Every expression, by where it stands."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]
    # An expression is on its line, or indented below it.
    yield from re.findall(r"- alert: (\w+)\n\s+expr: (?:\|\n)?(.*?)\n\s+(?:for|labels):", RULES, re.DOTALL)


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    """Name: labels, of a server to which everything has happened that makes a series."""
    folder = tmp_path_factory.mktemp("metrics")
    upstream = Upstream(lambda prompt: '<tool_call>\n{"name": "nothing"' if "broken" in prompt else call("book", {"n": "1"}),
                        TEMPLATE)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    (folder / "tenon.toml").write_text(
        f'[telemetry]\nendpoint = "http://127.0.0.1:{free_port()}"\n'
        f'[[model]]\nname = "tenon-tiny"\npath = "{ROOT / "models" / "tenon-tiny.gguf"}"\n'
        + CONFIG.format(name="scripted", port=upstream.server_port, format="hermes"))
    try:
        with serving(folder / "serve.log", "--config", str(folder / "tenon.toml")) as server:
            for name in ("tenon-tiny", "scripted"):
                for text in ("book 1", "broken"):
                    with contextlib.suppress(urllib.error.HTTPError):
                        asked(server, "/v1/chat/completions", {
                            "model": name, "messages": [{"role": "user", "content": text}], "tools": [TOOL], "max_tokens": 64,
                            **({"tool_choice": "required"} if name == "tenon-tiny" else {})})
            with urllib.request.urlopen(server.url + "/metrics", timeout=10) as answer:
                text = answer.read().decode()
    finally:
        upstream.shutdown()
        upstream.server_close()
    series = {}
    for name, labels in re.findall(r"^(tenon_\w+)(?:\{(.*)\})? ", text, re.MULTILINE):
        series.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return series


def names_in(expression):
    return set(re.findall(r"\btenon_\w+", expression))


def test_every_name_is_one_of_the_server(metrics):
    used = {name: where for where, expression in queries() for name in names_in(expression)}
    assert len(used) > 30
    missing = {name: where for name, where in used.items() if name not in metrics}
    assert not missing, missing


def test_every_figure_of_the_server_is_shown(metrics):
    used = set().union(*(names_in(expression) for _, expression in queries()))
    ends = ("_bucket", "_sum", "_count")
    shown = {re.sub("|".join(f"{end}$" for end in ends), "", name) for name in used}
    families = {re.sub("|".join(f"{end}$" for end in ends), "", name) for name in metrics}
    assert families <= shown, families - shown


def test_every_label_is_one_of_its_series(metrics):
    for where, expression in queries():
        labels = metrics_labels(metrics, expression) | {"instance", "job"}  # Prometheus adds these
        selected = set(re.findall(r'(\w+)=~?"', expression))
        grouped = {name.strip() for names in re.findall(r"by \(([^)]*)\)", expression) for name in names.split(",")}
        asked_for = set(re.findall(r"label_values\(\w+, (\w+)\)", expression))
        assert selected | grouped | asked_for <= labels, (where, (selected | grouped | asked_for) - labels)


def metrics_labels(metrics, expression):
    return set().union(*(metrics.get(name, set()) for name in names_in(expression)))


def test_panels_stand_beside_each_other():
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [(x, y) for place in places for x in range(place["x"], place["x"] + place["w"])
             for y in range(place["y"], place["y"] + place["h"])]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert all(panel["description"] for panel in DASHBOARD["panels"] if panel["type"] != "row")


@pytest.mark.parametrize("arguments", [["check", "rules", "tenon-alerts.yml"], ["test", "rules", "tenon-alerts-test.yml"]],
                         ids=["check", "test"])
def test_prometheus_accepts_the_rules(arguments):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is missing: the rules were NOT checked (Debian: apt-get install prometheus)")
    run = subprocess.run([promtool, *arguments], cwd=FOLDER, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and "SUCCESS" in run.stdout, run.stdout + run.stderr


def test_prometheus_reads_the_queries_of_the_dashboard(tmp_path):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is missing: the queries were NOT checked (Debian: apt-get install prometheus)")
    rules = [{"record": f"q{i}", "expr": expression.replace("$__rate_interval", "5m").replace("$model", ".*")}
             for i, (_, expression) in enumerate(queries()) if "label_values" not in expression]
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [{"name": "g", "rules": rules}]}))
    run = subprocess.run([promtool, "check", "rules", tmp_path / "rules.json"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr
