"""A server whose recursive model is played by a script."""
import contextlib
import http.server
import json
import threading
import urllib.error
import urllib.request

from serving import serving


def post(server, path, body, headers=None):
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(),
                                     {"content-type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def get(server, path):
    with urllib.request.urlopen(server.url + path, timeout=30) as answer:
        return json.load(answer)


class Policy:
    """An OpenAI-compatible server whose answers a function writes: `answer(model, messages)` gives the text."""

    def __init__(self, answer, models=("root", "sub")):
        self.answer, self.calls, self.lock = answer, [], threading.Lock()
        listed = json.dumps({"object": "list", "data": [{"id": name, "object": "model"} for name in models]}).encode()
        policy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def send(self, status, kind, body):
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                self.send(200, "application/json", listed)

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with policy.lock:
                    policy.calls.append(body)
                text = policy.answer(body["model"], body["messages"])
                if text is None:
                    return self.send(500, "application/json", b'{"error": {"message": "simulated", "type": "server_error"}}')
                usage = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
                if isinstance(text, str):
                    delta = {"role": "assistant", "content": text}
                else:
                    calls = [{"index": i, "id": f"c{i}", "type": "function", "function": call} for i, call in enumerate(text)]
                    delta = {"role": "assistant", "tool_calls": calls}
                reason = "stop" if isinstance(text, str) else "tool_calls"
                head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
                chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
                          {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
                          {**head, "choices": [], "usage": usage}]
                out = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
                return self.send(200, "text/event-stream", out.encode())

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 256  # sub-calls come many at a time, and what does not fit is reset

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def count(self, model):
        with self.lock:
            return sum(call["model"] == model for call in self.calls)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def config(policy, models, server=""):
    text = f"[server]\n{server}\n"
    for name in models:
        text += f'[[model]]\nname = "{name}"\nengine = "openai"\nurl = "{policy.url}"\nupstream_model = "{name}"\n'
    return text


@contextlib.contextmanager
def recursive(folder, answer, server="", options="", env=None):
    """A server with the model `rlm` over `root` and `sub`, which `answer` plays."""
    policy = Policy(answer)
    file = folder / "tenon.toml"
    file.write_text(config(policy, ["root", "sub"], server) + f'[[model]]\nname = "rlm"\nengine = "rlm"\nroot = "root"\nsub = "sub"\n{options}\n')
    try:
        with serving(folder / "serve.log", "--config", str(file), env={"HOME": str(folder), **(env or {})}) as running:
            yield running, policy
    finally:
        policy.close()


def ask(text, context="the needle", **more):
    return {"model": "rlm", "messages": [{"role": "system", "content": context}, {"role": "user", "content": text}], **more}


TOOLS = [{"type": "function", "function": {"name": "search", "parameters": {
    "type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}}}]
SEARCH = {"name": "search", "arguments": '{"query": "X"}'}


def turns(*texts):
    """Answers of the root by the number of its turn; the sub-model echoes."""
    def answer(model, messages):
        if model == "sub":
            return "<" + messages[-1]["content"] + ">"
        return texts[sum(message["role"] == "assistant" for message in messages)]
    return answer


def resumed(body, reply, results):
    message = reply["choices"][0]["message"]
    calls = message["tool_calls"]
    assert len(calls) == len(results)
    tools = [{"role": "tool", "tool_call_id": call["id"], "content": result} for call, result in zip(calls, results)]
    return {**body, "messages": [*body["messages"], message, *tools]}
