"""Spans and metrics by OpenTelemetry (docs/telemetry.md). The receiver reads every request with OpenTelemetry's own schema
(opentelemetry-proto), so a field that the protocol does not have fails a test."""
import base64
import contextlib
import http.server
import json
import subprocess
import threading
import time
import urllib.request

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from scripted_upstream import serving_script
from serving import ROOT, TENON, free_port, serving
from test_tools import asked, model, rains, servers

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SERVER, CLIENT, INTERNAL = 2, 3, 1
EXECUTE = 'execute = "server"\nmcp = "mcp.json"\nmax_tool_rounds = 3\n'


def in_base64(value):
    """OTLP's JSON writes ids in hexadecimal, protobuf's JSON in base64."""
    if isinstance(value, list):
        return [in_base64(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: base64.b64encode(bytes.fromhex(item)).decode() if key in ("traceId", "spanId", "parentSpanId")
            else in_base64(item) for key, item in value.items()}


def plain(any_value):
    kind = any_value.WhichOneof("value")
    return [plain(item) for item in any_value.array_value.values] if kind == "array_value" else getattr(any_value, kind)


class Span:
    def __init__(self, span):
        self.name, self.kind, self.state = span.name, span.kind, span.trace_state
        self.trace, self.id, self.parent = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
        self.begin, self.end = span.start_time_unix_nano, span.end_time_unix_nano
        self.attributes = {one.key: plain(one.value) for one in span.attributes}
        self.has_failed, self.message = span.status.code == 2, span.status.message
        assert len(span.trace_id) == 16 and len(span.span_id) == 8 and self.begin <= self.end
        assert len(self.attributes) == len(span.attributes)

    def __repr__(self):
        return f"{self.name} {self.attributes}"


class Collector(http.server.ThreadingHTTPServer):
    """A receiver of OTLP over HTTP in JSON. `statuses` are its first answers to spans; then it takes them."""
    daemon_threads = True

    def __init__(self, statuses=()):
        super().__init__(("127.0.0.1", 0), Handler)
        self.statuses, self.faults = list(statuses), []
        self.spans, self.metrics, self.resource, self.headers, self.requests = [], {}, {}, {}, 0
        self.url = f"http://127.0.0.1:{self.server_port}"

    def take(self, path, headers, body):
        kind = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}[path]
        assert headers["content-type"] == "application/json"
        told = json_format.Parse(json.dumps(in_base64(json.loads(body))), kind())
        self.headers = {name.lower(): value for name, value in headers.items()}
        for part in told.resource_spans if path == "/v1/traces" else told.resource_metrics:
            self.resource = {one.key: plain(one.value) for one in part.resource.attributes}
            for scope in part.scope_spans if path == "/v1/traces" else part.scope_metrics:
                assert scope.scope.name == "tenon" and scope.scope.version
                if path == "/v1/traces":
                    self.spans += [Span(span) for span in scope.spans]
                else:
                    self.metrics = {metric.name: metric for metric in scope.metrics}

    def wait_for(self, *names, count=1):
        """The spans, once there is one of each name."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            assert not self.faults, self.faults
            if all(sum(span.name == name for span in self.spans) >= count for name in names):
                return {span.name: span for span in self.spans}
            time.sleep(0.02)
        raise AssertionError(f"{names} are not among {[span.name for span in self.spans]}")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.requests += 1
        status = self.server.statuses.pop(0) if self.server.statuses and self.path == "/v1/traces" else 200
        try:
            if status == 200:
                self.server.take(self.path, dict(self.headers.items()), body)
        except Exception as fault:  # the test tells it
            self.server.faults.append(f"{type(fault).__name__}: {fault}: {body[:500]}")
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")


@contextlib.contextmanager
def collecting(statuses=()):
    collector = Collector(statuses)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    try:
        yield collector
    finally:
        collector.shutdown()
        collector.server_close()
    assert not collector.faults, collector.faults


def to(collector, **more):
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "50",
            "OTEL_METRIC_EXPORT_INTERVAL": "200", **more}


BODY = {"messages": [{"role": "user", "content": "a secret question"}]}


def counts_of(server):
    with urllib.request.urlopen(server.url + "/metrics", timeout=10) as answer:
        lines = [line.split() for line in answer.read().decode().splitlines() if line.startswith("tenon_telemetry_spans_total")]
    return {name.split('"')[1]: float(value) for name, value in lines}


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_request_is_a_tree_of_spans(transport, tmp_path):
    with collecting() as collector, servers(transport, tmp_path), model(tmp_path, rains, EXECUTE) as (config, _), \
            serving(tmp_path / "log", "--config", str(config), env=to(collector, OTEL_SERVICE_NAME="kitchen",
                    OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test")) as server:
        collector.wait_for("tools/list")  # on a busy machine the server of tools may come late
        asked(server, "/v1/chat/completions", BODY, {"traceparent": PARENT, "tracestate": "a=1"})
        spans = collector.wait_for("POST /v1/chat/completions", "invoke_agent scripted", "execute_tool get_weather", "POST")
        root, agent = spans["POST /v1/chat/completions"], spans["invoke_agent scripted"]
        tool = spans["execute_tool get_weather"]
        chats = [span for span in collector.spans if span.name == "chat scripted"]
        posts = [span for span in collector.spans if span.name == "POST"]
        assert collector.resource == {"service.name": "kitchen", "deployment.environment.name": "test"}

        mine = [span for span in collector.spans if span.trace == PARENT.split("-")[1]]
        assert {span.state for span in mine} == {"a=1"}
        assert len(mine) == 7, mine  # no other one, such as a second one for the server's tool
        assert root.kind == SERVER and root.parent == PARENT.split("-")[2]
        assert root.attributes["http.response.status_code"] == 200 and root.attributes["http.route"] == "/v1/chat/completions"
        assert agent.parent == root.id and agent.kind == INTERNAL
        assert len(chats) == len(posts) == 2 and {span.parent for span in chats} == {agent.id}
        assert {post.parent for post in posts} == {chat.id for chat in chats}
        assert tool.parent == agent.id
        for inner, outer in [(agent, root), (tool, agent), *((chat, agent) for chat in chats)]:
            assert outer.begin <= inner.begin and inner.end <= outer.end, (inner, outer)

        first = min(chats, key=lambda span: span.begin)
        assert first.kind == CLIENT and first.attributes["gen_ai.provider.name"] == "llama-server"
        assert first.attributes["gen_ai.operation.name"] == "chat" and first.attributes["gen_ai.request.model"] == "scripted"
        assert first.attributes["gen_ai.response.finish_reasons"] == ["tool_calls"]
        assert first.attributes["gen_ai.usage.input_tokens"] > 0 and first.attributes["gen_ai.usage.output_tokens"] > 0
        assert tool.attributes["gen_ai.tool.name"] == "get_weather" and tool.attributes["mcp.method.name"] == "tools/call"
        assert tool.attributes["network.transport"] == ("pipe" if transport == "stdio" else "tcp")
        assert tool.attributes["gen_ai.tool.call.id"]
        assert posts[0].attributes["server.address"] == "127.0.0.1" and posts[0].attributes["http.response.status_code"] == 200
        everything = json.dumps([[span.name, span.attributes, span.message] for span in collector.spans], default=str)
        assert "secret" not in everything and "rain" not in everything and "Rome" not in everything


def test_what_is_passed_on_names_the_span(tmp_path):
    seen = []

    class Tools(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            seen.append((asked, self.headers.get("traceparent"), self.headers.get("tracestate")))
            results = {"server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                                           "serverInfo": {"name": "t", "version": "1"}},
                       "tools/list": {"tools": [{"name": "get_weather", "inputSchema": {"type": "object"}}]},
                       "tools/call": {"content": [{"type": "text", "text": "no luck"}], "isError": True}}
            body = json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), "result": {
                "resultType": "complete", **results.get(asked["method"], {})}}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    tools = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tools)
    threading.Thread(target=tools.serve_forever, daemon=True).start()
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"w": {"url": f"http://127.0.0.1:{tools.server_port}/mcp"}}}))
    calls = lambda: [one for one in seen if one[0]["method"] == "tools/call"]  # noqa: E731
    try:
        with collecting() as collector, model(tmp_path, rains, EXECUTE) as (config, _):
            # Without telemetry, what comes from the client is passed on.
            with serving(tmp_path / "log", "--config", str(config)) as server:
                asked(server, "/v1/chat/completions", BODY, {"traceparent": PARENT, "tracestate": "a=1"})
            (request, header, state), = calls()
            assert header == request["params"]["_meta"]["traceparent"] == PARENT
            assert state == request["params"]["_meta"]["tracestate"] == "a=1"
            seen.clear()
            with serving(tmp_path / "log2", "--config", str(config), env=to(collector)) as server:
                asked(server, "/v1/chat/completions", BODY, {"traceparent": PARENT})
                tool = collector.wait_for("execute_tool get_weather")["execute_tool get_weather"]
            (request, header, _), = calls()
            assert header == request["params"]["_meta"]["traceparent"] == f"00-{tool.trace}-{tool.id}-01"
            assert tool.has_failed and tool.attributes["error.type"] == "tool_error" and tool.message == ""
            assert tool.attributes["server.port"] == tools.server_port
            listing = collector.wait_for("tools/list")["tools/list"]
            assert listing.kind == CLIENT and listing.attributes["mcp.protocol.version"] == "2026-07-28"
    finally:
        tools.shutdown()
        tools.server_close()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The bundled model, with a receiver that takes texts."""
    folder = tmp_path_factory.mktemp("telemetry")
    with collecting() as collector:
        (folder / "tenon.toml").write_text(
            f'[telemetry]\nendpoint = "{collector.url}/"\nheaders = ["x-api-key=s3cret%21"]\nservice_name = "pantry"\n'
            f'resource = ["team=a"]\ncontents = true\nmetrics_interval_s = 1\n'
            f'[[model]]\nname = "tenon-tiny"\npath = "{ROOT / "models" / "tenon-tiny.gguf"}"\n')
        with serving(folder / "serve.log", "--config", str(folder / "tenon.toml"),
                     env={"OTEL_BSP_SCHEDULE_DELAY": "50"}) as server:
            yield server, collector


TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


def test_texts_go_along_if_they_are_wanted(tiny):
    server, collector = tiny
    asked(server, "/v1/chat/completions", {"model": "tenon-tiny", **BODY, "tools": [TOOL], "tool_choice": "required",
                                           "max_tokens": 60, "temperature": 0.5, "seed": 3, "stream": True})
    chat = collector.wait_for("chat tenon-tiny", "POST /v1/chat/completions")["chat tenon-tiny"]
    said = chat.attributes
    assert collector.headers["x-api-key"] == "s3cret!" and collector.resource == {"service.name": "pantry", "team": "a"}
    assert chat.kind == INTERNAL and said["gen_ai.provider.name"] == "tenon" and said["tenon.guarantee"] == "masked"
    assert said["gen_ai.request.max_tokens"] == 60 and said["gen_ai.request.temperature"] == 0.5
    assert said["gen_ai.request.seed"] == 3 and said["gen_ai.response.time_to_first_chunk"] > 0
    assert json.loads(said["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "a secret question"}]}]
    output, = json.loads(said["gen_ai.output.messages"])
    called, = [part for part in output["parts"] if part["type"] == "tool_call"]
    assert called["name"] == "get_weather" and "city" in called["arguments"] and output["finish_reason"] == "tool_calls"
    assert json.loads(said["gen_ai.tool.definitions"])[0]["name"] == "get_weather"


def test_metrics_are_those_of_the_conventions(tiny):
    server, collector = tiny
    asked(server, "/v1/messages", {"model": "tenon-tiny", "max_tokens": 20, **BODY})
    wanted = {"gen_ai.client.token.usage": "{token}", "gen_ai.client.operation.duration": "s",
              "gen_ai.server.request.duration": "s", "gen_ai.server.time_to_first_token": "s",
              "http.server.request.duration": "s"}
    deadline = time.monotonic() + 30
    while not wanted.keys() <= collector.metrics.keys() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert {name: collector.metrics[name].unit for name in wanted} == wanted
    for metric in collector.metrics.values():
        assert metric.histogram.aggregation_temporality == 2
        for point in metric.histogram.data_points:
            assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
            assert sum(point.bucket_counts) == point.count > 0 and point.min <= point.max <= point.sum + 1e-9
            assert point.start_time_unix_nano < point.time_unix_nano
    kinds = {plain(one.value) for point in collector.metrics["gen_ai.client.token.usage"].histogram.data_points
             for one in point.attributes if one.key == "gen_ai.token.type"}
    assert kinds == {"input", "output"}


def test_a_refused_request_and_one_that_cannot_be_answered(tiny):
    server, collector = tiny
    collector.spans.clear()
    with pytest.raises(urllib.error.HTTPError):
        asked(server, "/v1/chat/completions", {"model": "tenon-tiny", "messages": "nothing"})
    with pytest.raises(urllib.error.HTTPError):
        asked(server, "/v1/chat/completions", {"model": "tenon-tiny", "messages": [{"role": "user", "content": "word " * 30_000}]})
    collector.wait_for("POST /v1/chat/completions", count=2)
    chat = collector.wait_for("chat tenon-tiny")["chat tenon-tiny"]
    assert chat.has_failed and chat.attributes["error.type"]
    statuses = {span.attributes["http.response.status_code"] for span in collector.spans if span.kind == SERVER}
    assert statuses == {400} and not any(span.has_failed for span in collector.spans if span.kind == SERVER)


def test_the_log_forbids_texts(tmp_path):
    with collecting() as collector:
        (tmp_path / "tenon.toml").write_text(
            f'[server]\nlog_contents = false\n[telemetry]\nendpoint = "{collector.url}"\ncontents = true\n'
            f'[[model]]\nname = "tenon-tiny"\npath = "{ROOT / "models" / "tenon-tiny.gguf"}"\n')
        with serving(tmp_path / "serve.log", "--config", str(tmp_path / "tenon.toml"), env={"OTEL_BSP_SCHEDULE_DELAY": "50"}) as server:
            asked(server, "/v1/chat/completions", {"model": "tenon-tiny", **BODY, "max_tokens": 5, "stop": ["a secret"]},
                  {"authorization": "Bearer a secret key"})
            collector.wait_for("chat tenon-tiny")
        assert "secret" not in json.dumps([span.attributes for span in collector.spans], default=str)


@pytest.mark.parametrize("sampler, flags, sampled", [
    (None, "01", True), (None, "00", False), ("always_on", "00", True), ("always_off", "01", False),
    ("parentbased_always_off", "01", True)])
def test_the_sampler_decides(tmp_path, sampler, flags, sampled):
    with collecting() as collector, serving_env(tmp_path, to(collector, **({"OTEL_TRACES_SAMPLER": sampler} if sampler else {}))) as \
            (server, upstream):
        asked(server, "/v1/chat/completions", BODY, {"traceparent": PARENT[:-2] + flags})
        deadline = time.monotonic() + 30
        while "gen_ai.client.operation.duration" not in collector.metrics and time.monotonic() < deadline:
            time.sleep(0.02)
        assert "gen_ai.client.operation.duration" in collector.metrics  # counted in any case
        if sampled:
            collector.wait_for("chat scripted")
        server.process.terminate()
        server.process.wait(timeout=15)
        assert bool(collector.spans) == sampled


@contextlib.contextmanager
def serving_env(folder, env, script=lambda prompt: "Hello."):
    with model(folder, script) as (config, upstream), serving(folder / "log", "--config", str(config), env=env) as server:
        yield server, upstream


def test_a_receiver_that_is_busy_or_gone_delays_no_answer(tmp_path):
    with collecting(statuses=[503, 429]) as collector, serving_env(tmp_path, to(collector)) as (server, _):
        asked(server, "/v1/chat/completions", BODY)
        collector.wait_for("chat scripted")  # at the third attempt
        deadline = time.monotonic() + 10
        while counts_of(server)["exported"] < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert counts_of(server)["exported"] >= 3 and counts_of(server)["failed"] == 0
    gone = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}", "OTEL_BSP_SCHEDULE_DELAY": "10",
            "OTEL_BSP_MAX_QUEUE_SIZE": "4", "OTEL_EXPORTER_OTLP_TIMEOUT": "1500"}
    folder = tmp_path / "gone"
    folder.mkdir()
    with serving_env(folder, gone) as (server, _):
        slowest = 0
        for _ in range(10):
            begun = time.monotonic()
            asked(server, "/v1/chat/completions", BODY)
            slowest = max(slowest, time.monotonic() - begun)
        deadline = time.monotonic() + 30
        while not (counts_of(server)["dropped"] and counts_of(server)["failed"]) and time.monotonic() < deadline:
            asked(server, "/v1/chat/completions", BODY)
        assert counts_of(server)["dropped"] > 0 and counts_of(server)["failed"] > 0 and counts_of(server)["exported"] == 0
        assert slowest < 10, slowest
    assert (folder / "log").read_text().count("takes nothing") == 1


def test_what_is_left_is_sent_when_the_server_stops(tmp_path):
    with collecting() as collector, serving_env(tmp_path, to(collector, OTEL_BSP_SCHEDULE_DELAY="3600000")) as (server, _):
        asked(server, "/v1/chat/completions", BODY)
        server.process.terminate()
        assert server.process.wait(timeout=15) == 0
        collector.wait_for("chat scripted", "POST /v1/chat/completions")


def test_nothing_is_sent_by_default(tmp_path):
    with collecting() as collector, serving_script(tmp_path, lambda prompt: "Hello.") as (server, _):
        asked(server, "/v1/chat/completions", BODY)
        assert counts_of(server) == {} and collector.requests == 0


@pytest.mark.parametrize("text, told", [
    ('[telemetry]\nendpoint = "collector:4318"\n', "is not a URL"),
    ('[telemetry]\nsampler = "some"\n', "telemetry.sampler must be"),
    ('[telemetry]\nsampler_arg = 2\n', "a number from 0 to 1"),
    ('[telemetry]\nendpoint = "http://h"\nheaders = ["a secret"]\n', 'entries "name=value"'),
    ('[telemetry]\nurl = "x"\n', "unknown key telemetry.url")])
def test_a_wrong_table_is_told(tmp_path, text, told):
    (tmp_path / "tenon.toml").write_text(text)
    run = subprocess.run([TENON, "serve", "--config", tmp_path / "tenon.toml"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 3 and told in run.stderr and "secret" not in run.stderr, run.stderr


def test_a_recursive_model_is_an_agent(tmp_path):
    config = tmp_path / "tenon.toml"
    with collecting() as collector, model(tmp_path, lambda prompt: "```repl\nFINAL('42')\n```") as (_, _upstream):
        config.write_text(config.read_text() + '\n[[model]]\nname = "deep"\nengine = "rlm"\nroot = "scripted"\nmax_iterations = 2\n')
        with serving(tmp_path / "log", "--config", str(config), env=to(collector)) as server:
            with contextlib.suppress(urllib.error.HTTPError):  # how the run ends does not matter here
                asked(server, "/v1/chat/completions", {**BODY, "model": "deep"})
            spans = collector.wait_for("invoke_agent deep", "chat scripted", "POST /v1/chat/completions")
        assert spans["chat scripted"].trace == spans["invoke_agent deep"].trace
        assert spans["invoke_agent deep"].parent == spans["POST /v1/chat/completions"].id
