"""An upstream that is cut at every byte of its answer, behind `tenon serve`: clients are told, nothing is lost or made up,
and nothing of it stays in the server."""
import concurrent.futures
import json
import os
import threading
import urllib.error
import urllib.request

from scripted_upstream import TEMPLATE, Handler, Upstream, call
from serving import serving
from test_pools import CONFIG
from test_token_servers import WEATHER

TEXT = "I look. " + call("get_weather", {"city": "Paris"}) + "\nDone."
PIECES = [TEXT[at:at + 11] for at in range(0, len(TEXT), 11)]
EVENTS = [{"content": piece, "stop": False} for piece in PIECES]
EVENTS.append({"content": "", "stop": True, "stop_type": "eos", "tokens_predicted": len(PIECES)})


def recorded():
    body = b""
    for event in EVENTS:
        line = f"data: {json.dumps(event)}\n\n".encode()
        body += f"{len(line):x}\r\n".encode() + line + b"\r\n"
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"


WHOLE = recorded()


class Cutting(Handler):
    def do_POST(self):
        if self.path != "/completion":
            return super().do_POST()
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.close_connection = True
        return self.wfile.write(WHOLE[:body["seed"]])


class CuttingUpstream(Upstream):
    def __init__(self):
        super(Upstream, self).__init__(("127.0.0.1", 0), Cutting)
        self.template = TEMPLATE


def ask(url, cut, stream):
    body = {"model": "pool", "messages": [{"role": "user", "content": "Hi"}], "tools": [WEATHER], "seed": cut, "stream": stream}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def judge_stream(text, is_whole):
    lines = [line[6:] for line in text.split("\n\n") if line.startswith("data: ")]
    events = [json.loads(line) for line in lines if line != "[DONE]"]
    content = arguments = ""
    reasons = []
    for event in events:
        for choice in event.get("choices", []):
            content += choice["delta"].get("content") or ""
            for one in choice["delta"].get("tool_calls", []):
                arguments += one["function"].get("arguments", "")
            reasons += [choice["finish_reason"]] if choice["finish_reason"] else []
    # The bytes of a call without a name yet are content, because the model wrote them.
    assert "I look. \nDone.".startswith(content) or (TEXT.startswith(content) and not is_whole), content
    assert '{"city": "Paris"}'.startswith(arguments), arguments
    if is_whole:
        assert reasons == ["tool_calls"] and lines[-1] == "[DONE]" and arguments == '{"city": "Paris"}'
    else:
        assert reasons == [] and "error" in events[-1], text


def judge_whole(status, text, is_whole):
    answer = json.loads(text)
    if is_whole:
        assert status == 200 and answer["choices"][0]["finish_reason"] == "tool_calls"
    else:
        assert status in (502, 503) and answer["error"]["code"] == "engine_error", text


def test_clients_are_told_where_an_upstream_is_cut_at_any_byte(tmp_path):
    upstream = CuttingUpstream()
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    config = tmp_path / "tenon.toml"
    config.write_text(CONFIG.format(urls=json.dumps(f"http://127.0.0.1:{upstream.server_port}"), server='[server]\nlog_level = "error"\n'))
    end = WHOLE.rindex(b"\n\n") + 2
    try:
        with serving(tmp_path / "serve.log", "--config", str(config)) as tenon:
            def descriptors():
                return len(os.listdir(f"/proc/{tenon.process.pid}/fd"))

            def one(cut):
                status, text = ask(tenon.url, cut, stream=True)
                if status == 200:
                    judge_stream(text, cut >= end)
                else:
                    judge_whole(status, text, cut >= end)
                if cut % 7 == 0:
                    judge_whole(*ask(tenon.url, cut, stream=False), cut >= end)

            one(len(WHOLE))
            before = descriptors()
            with concurrent.futures.ThreadPoolExecutor(4) as threads:
                list(threads.map(one, range(len(WHOLE) + 1)))
            assert tenon.is_alive()
            one(len(WHOLE))
            assert descriptors() <= before + 8  # connections that are kept
    finally:
        upstream.shutdown()
        upstream.server_close()
