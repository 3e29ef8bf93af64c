"""A llama-server that says what a test wants, for clients whose prompts are too long for the bundled model. Its tokens
are bytes, its model writes calls as Hermes does."""
import contextlib
import http.server
import json
import threading

from serving import serving

TEMPLATE = """\
{%- if tools %}<|im_start|>system
<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>
Call like this: <tool_call>
{"name": <name>, "arguments": <arguments>}
</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == "tool" %}<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% else %}<|im_start|>{{ message.role }}
{{ message.content or "" }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": {{ call.function.name | tojson }}, "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

# What of Llama 3.1's own template makes parallel calls hard: a message takes one.
LLAMA31 = """\
{%- for message in messages %}
{%- if message.role == "tool" or message.role == "ipython" %}<|start_header_id|>ipython<|end_header_id|>

{{ message.content | tojson }}<|eot_id|>
{%- elif "tool_calls" in message %}
{%- if not message.tool_calls | length == 1 %}{{ raise_exception("This model only supports single tool-calls at once!") }}{% endif %}
{%- set call = message.tool_calls[0].function %}<|start_header_id|>assistant<|end_header_id|>

{"name": "{{ call.name }}", "parameters": {{ call.arguments | tojson }}}<|eot_id|>
{%- else %}<|start_header_id|>{{ message.role }}<|end_header_id|>

{% if message.role == "user" and tools and loop.last %}Functions:
{% for tool in tools %}{{ tool | tojson(indent=4) }}
{% endfor %}{% endif %}{{ message.content }}<|eot_id|>
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>

{% endif %}"""

CONFIG = """[[model]]
name = "{name}"
engine = "llama-server"
url = "http://127.0.0.1:{port}"
tool_call_format = "{format}"
"""


def call(name, arguments):
    return f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {json.dumps(arguments)}}}\n</tool_call>'


class Upstream(http.server.ThreadingHTTPServer):
    """Answers each prompt with `script(prompt)`, four bytes at a time, and keeps what it was asked."""
    daemon_threads = True

    def __init__(self, script, template):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.template, self.prompts = script, template, []


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send_json(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_json({
            "/props": {"default_generation_settings": {"n_ctx": 1 << 20}, "total_slots": 8, "chat_template": self.server.template,
                       "bos_token": "", "eos_token": ""},
            "/v1/models": {"data": [{"id": "scripted", "meta": {"n_vocab": 256}}]}}.get(self.path, {}))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/tokenize":
            content = body["content"]
            if isinstance(content, str):
                return self.send_json({"tokens": list(content.encode())})
            return self.send_json({"tokens": [{"id": id, "piece": chr(id) if id < 128 else [id]} for id in content]})
        prompt = bytes(body["prompt"]).decode()
        self.server.prompts.append(prompt)
        text = self.server.script(prompt)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for at in range(0, len(text), 4):
            self.send_event({"content": text[at:at + 4], "stop": False})
        self.send_event({"content": "", "stop": True, "stop_type": "eos", "tokens_predicted": len(text)})
        self.close_connection = True

    def send_event(self, value):
        self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())


@contextlib.contextmanager
def serving_script(folder, script, template=TEMPLATE, tool_format="hermes", name="scripted"):
    """`tenon serve` over an upstream that answers with `script(prompt)`; yields both."""
    upstream = Upstream(script, template)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    try:
        config = folder / "tenon.toml"
        config.write_text(CONFIG.format(name=name, port=upstream.server_port, format=tool_format))
        with serving(folder / "serve.log", "--config", str(config)) as server:
            yield server, upstream
    finally:
        upstream.shutdown()
        upstream.server_close()
