"""The engine that `tenon verify --played` drives: a llama-server that does what the last question in its prompt says
(docs/verify.md). Run by itself it serves one with `tenon serve` in front:

    python tests/e2e/verify_player.py        # prints the server's address, until Ctrl-C
"""
import contextlib
import json
import pathlib
import random
import re
import tempfile
import threading
import time

import scripted_upstream
from scripted_upstream import CONFIG, TEMPLATE
from serving import serving

MARK = "tenon-verify-play:"
WORDS = "amber birch cedar delta ember fjord grove heath inlet juniper".split()


def wanted(prompt):
    """What is to be said, and the prompt without such lines."""
    pieces, said = prompt.split(MARK), {}
    rest = [pieces[0]]
    for piece in pieces[1:]:
        said, end = json.JSONDecoder().raw_decode(piece)
        rest.append(piece[end:])
    return said, "".join(rest)


def text_of(prompt, seed=None):
    said, rest = wanted(prompt)
    text = f"<think>\n{said['reasoning']}\n</think>\n\n" if "reasoning" in said else ""
    text += said.get("text", "")
    if "find" in said:
        found = re.findall(said["find"], rest)
        text += "found: " + ", ".join(found) if found else "nothing was found"
    if said.get("drawn"):
        draw = random.Random(seed if isinstance(seed, int) and seed >= 0 else None)
        text += " ".join(draw.choice(WORDS) for _ in range(12))
    for call in said.get("calls", []):
        text += f'\n<tool_call>\n{{"name": {json.dumps(call["name"])}, "arguments": {call["arguments"]}}}\n</tool_call>'
    return text.lstrip("\n") if "calls" in said else text, said.get("pace_ms", 0) / 1000


class Handler(scripted_upstream.Handler):
    """Its tokens are bytes, and it ends at `n_predict`."""
    disable_nagle_algorithm = True

    def do_POST(self):
        if self.path == "/tokenize":
            return super().do_POST()
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text, pace = text_of(bytes(body["prompt"]).decode(), body.get("seed"))
        data, limit = text.encode(), body.get("n_predict", -1)
        cut = 0 <= limit < len(data)
        data = data[:limit] if cut else data
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        size = max(5, len(data) // 400)
        with contextlib.suppress(OSError):  # Tenon goes away where its client has
            text = data.decode(errors="ignore")
            for at in range(0, len(text), size):
                self.send_event({"content": text[at:at + size], "stop": False})
                time.sleep(pace)
            self.send_event({"content": "", "stop": True, "stop_type": "limit" if cut else "eos", "tokens_predicted": len(data)})
        self.close_connection = True


class Player(scripted_upstream.Upstream):
    def __init__(self):
        super().__init__(None, TEMPLATE)
        self.RequestHandlerClass = Handler


@contextlib.contextmanager
def serving_player(folder):
    """`tenon serve` over the player."""
    player = Player()
    threading.Thread(target=player.serve_forever, args=(0.05,), daemon=True).start()
    try:
        config = folder / "tenon.toml"
        config.write_text(CONFIG.format(name="played", port=player.server_port, format="hermes"))
        with serving(folder / "serve.log", "--config", str(config)) as server:
            yield server
    finally:
        player.shutdown()
        player.server_close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place, serving_player(pathlib.Path(place)) as running, contextlib.suppress(KeyboardInterrupt):
        print(running.url, flush=True)
        threading.Event().wait()
