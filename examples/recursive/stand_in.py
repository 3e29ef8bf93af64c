"""Plays the two models of a recursive model by a script, to see one work without a model that can write code.

    python3 examples/recursive/stand_in.py --make haystack.txt &      # a file of 10 MB with a needle in it
    tenon rlm --config examples/recursive/tenon.toml --context haystack.txt "What is the code of the vault?"

The script is an OpenAI-compatible server. As `root` it looks at the context, takes it apart, asks about all parts at
the same time, and answers; as `sub` it finds what it is asked for in the part that it sees, as a small model would.
Neither knows where the needle is. With other models in tenon.toml the same command asks those."""

import argparse
import http.server
import json
import random
import re

TURNS = [
    "I look at the context first.\n\n```repl\nprint(type(context), len(context))\nprint(context[:300])\n```",
    "It is too long to be read at once: I ask about its parts.\n\n```repl\n"
    "size = 200_000\n"
    "parts = [context[i:i + size + 200] for i in range(0, len(context), size)]\n"
    "answers = llm_query_batched(['What is the code of the vault? Say no more than the code, or NONE.\\n\\n' + part for part in parts])\n"
    "found = sorted({answer for answer in answers if answer != 'NONE' and not answer.startswith('Error: ')})\n"
    "print(len(parts), 'parts:', found)\n```",
    "One of them has told it.\n\n```repl\ncode = found[0] if found else 'nobody tells it'\n```\nFINAL_VAR(code)",
]


def root(messages):
    turn = sum(message["role"] == "assistant" for message in messages)
    return TURNS[min(turn, len(TURNS) - 1)]


def sub(messages):
    found = re.search(r"The code of the vault is (\d+)\.", messages[-1]["content"])
    return found.group(1) if found else "NONE"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, kind, text):
        self.send_response(200)
        self.send_header("content-type", kind)
        body = text.encode()
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        models = [{"id": name, "object": "model"} for name in ("root", "sub")]
        self.send("application/json", json.dumps({"object": "list", "data": models}))

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = (root if request["model"] == "root" else sub)(request["messages"])
        tokens = sum(len(message.get("content") or "") for message in request["messages"]) // 4
        usage = {
            "prompt_tokens": tokens,
            "completion_tokens": len(text) // 4,
            "total_tokens": tokens + len(text) // 4,
        }
        head = {"id": "stand-in", "created": 0, "model": request["model"]}
        if not request.get("stream"):
            choice = {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
            body = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
            return self.send("application/json", json.dumps(body))
        chunks = [
            {
                "choices": [
                    {
                        "index": 0,
                        "delta": {"role": "assistant", "content": text},
                        "finish_reason": None,
                    }
                ]
            },
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {"choices": [], "usage": usage},
        ]
        lines = [
            json.dumps({**head, "object": "chat.completion.chunk", **chunk}) for chunk in chunks
        ]
        return self.send(
            "text/event-stream", "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"])
        )


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128


def make(path):
    chance = random.Random(4)
    words = "the a of river letter ship morning old garden key no wind said went under house and then".split()
    lines = [" ".join(chance.choices(words, k=16)) + "." for _ in range(130_000)]
    lines[chance.randrange(len(lines))] = (
        f"The code of the vault is {chance.randrange(10**6, 10**7)}."
    )
    with open(path, "w") as file:
        file.write("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--make", metavar="FILE", help="writes the file with the needle first")
    parser.add_argument("--port", type=int, default=8099)
    options = parser.parse_args()
    if options.make:
        make(options.make)
    with Server(("127.0.0.1", options.port), Handler) as server:
        print(f"root and sub are at http://127.0.0.1:{options.port}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
