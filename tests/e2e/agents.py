"""Running a coding agent as its page in docs/clients says, in an empty home, and watching each request that it makes."""
import contextlib
import http.client
import http.server
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import urllib.parse

from scripted_upstream import call
from serving import ROOT, TENON

CLIENTS = ROOT / "tests" / "e2e" / "clients"
ENVIRONMENTS = pathlib.Path(sys.prefix) / "clients"
PLACE = "http://127.0.0.1:8080"  # where the pages say that the server is

WORD = "tenon-41"
QUESTION = "Read notes.txt, write the word that it holds to answer.txt, and say the word."
ANSWER = f"It says {WORD}."
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "upgrade"}


def run(command, folder, url, timeout=300, **variables):
    """What the command says; it must succeed."""
    outer = {name: value for name, value in os.environ.items()
             if not name.startswith(("ANTHROPIC", "CLAUDE", "OPENAI", "QWEN", "XDG_"))}
    env = {**outer, "TENON_URL": url, "PWD": str(folder), **variables}
    done = subprocess.run([str(word) for word in command], cwd=folder, env=env,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ---- Watching -----------------------------------------------------------------------------------


class Watch(http.server.ThreadingHTTPServer):
    """Passes each request on to a server and each answer back as it comes, and keeps both."""
    daemon_threads = True

    def __init__(self, server, limit_s):
        super().__init__(("127.0.0.1", 0), WatchHandler)
        self.server, self.limit_s, self.seen = server, limit_s, []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def asked(self):
        """The paths and bodies of the questions to a model, in their order."""
        return [(path, body) for method, path, body, _, _ in self.seen
                if method == "POST" and path.endswith(("/chat/completions", "/responses", "/messages"))]

    def refused(self):
        return [(method, path, status, answer) for method, path, _, status, answer in self.seen if status >= 400]


class WatchHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def pass_on(self):
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length)
        place = urllib.parse.urlsplit(self.server.server.url)
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=self.server.limit_s)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
        connection.request(self.command, self.path, body=body or None, headers=headers)
        answer = connection.getresponse()
        seen = [self.command, urllib.parse.urlsplit(self.path).path, json.loads(body) if body else None, answer.status, b""]
        self.server.seen.append(seen)
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        with contextlib.suppress(OSError):
            while part := answer.read1(65536):
                seen[4] += part
                self.wfile.write(part)
                self.wfile.flush()
        connection.close()
        self.close_connection = True

    do_GET = do_POST = do_HEAD = do_DELETE = pass_on


@contextlib.contextmanager
def watching(server, limit_s=300):
    watch = Watch(server, limit_s)
    threading.Thread(target=watch.serve_forever, daemon=True).start()
    try:
        yield watch
    finally:
        watch.shutdown()
        watch.server_close()


# ---- The model that is played -------------------------------------------------------------------


def results_in(prompt):
    return re.findall(r"<\|im_start\|>user\n<tool_response>\n(.*?)\n</tool_response><\|im_end\|>", prompt, re.DOTALL)


def offered(prompt):
    """The names of the tools that the prompt tells the model of."""
    tools = prompt.split("</tools>")[0] if "<tools>" in prompt else ""
    return re.findall(r'"function": \{"name": "([^"]+)"', tools) or re.findall(r'^\{"type": "function".*?"name": "([^"]+)"', tools, re.M)


def rounds(*calls, last=ANSWER):
    """A model that makes one call after the other, each once it has seen the result of the one before, and then answers. It says
    nothing of the word unless a result has told it."""
    def script(prompt):
        if "<tools>" not in prompt or calls[0][0] not in offered(prompt):
            return "A title"
        results = results_in(prompt)
        if results and WORD not in "".join(results):
            return "It says nothing."
        if len(results) < len(calls):
            return "Let me see.\n" + call(*calls[len(results)])
        return last
    return script


# ---- The agent ----------------------------------------------------------------------------------


def for_server(text, url):
    return text.replace(PLACE, url).replace("my-model", "scripted")


class Agent:
    """A coding agent in a project of one file, with an empty home."""

    words_are_not_free = False

    def __init__(self, folder, name, language, program):
        self.name, self.folder, self.program = name, folder, program
        assert program.exists(), f"{program} is not installed: scripts/setup.sh clients-long"
        self.project = folder / "project"
        self.project.mkdir()
        (folder / "HOME").mkdir()
        (self.project / "notes.txt").write_text(f"The word is {WORD}.\n")
        self.page = (ROOT / "docs" / "clients" / f"{name}.md").read_text()
        self.recipe = self.block(language)
        assert PLACE in self.page and "my-model" in self.page

    def block(self, language):
        """The first of the page in this language."""
        return self.page.split(f"```{language}\n")[1].split("```")[0]

    def recipe_for(self, url):
        """The page's own, for this server."""
        return for_server(self.recipe, url)

    def write_home(self, name, language, url):
        """Writes a file of the home as the page has it."""
        path = self.folder / "HOME" / name
        path.parent.mkdir(parents=True)
        path.write_text(for_server(self.block(language), url))
        return path

    def run(self, watch, *arguments, **variables):
        """Runs the program with these arguments."""
        return run([self.program, *arguments], self.project, watch.url, **self.environment(), **variables)

    def run_recipe(self, watch, **variables):
        """Runs the commands of the page as they stand there, but for the place and the model."""
        return run(["bash", "-euc", self.recipe_for(watch.url)], self.project, watch.url, **self.environment(), **variables)

    def launch(self, watch, name, *arguments, **variables):
        """By `tenon launch`, without the page's file. A link would hide from Python in which environment the program is."""
        programs = self.folder / "programs"
        programs.mkdir()
        started = programs / self.program.name.removesuffix(".exe")
        started.write_text(f'#!/bin/sh\nexec "{self.program}" "$@"\n')
        started.chmod(0o755)
        environment = self.environment()
        environment["PATH"] = f"{programs}:{environment['PATH']}"
        return run([TENON, "launch", name, "--url", watch.url, "--", *arguments], self.project, watch.url, **environment, **variables)

    def environment(self):
        """An empty home, and the agent's own programs before all others: some bring a newer Node."""
        node = CLIENTS / self.name / "node_modules" / f"node-linux-{'arm64' if os.uname().machine == 'aarch64' else 'x64'}" / "bin"
        return {"PATH": f"{node}:{self.program.parent}:{os.environ['PATH']}", "NO_COLOR": "1",
                **{name: str(self.folder / name) for name in
                   ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}}

    def check(self, watch, upstream, said, rounds=3, is_kept=True):
        """It made its rounds, each with one result more than the one before, and no request was refused."""
        prompts = upstream.prompts
        assert not [one for one in watch.refused() if one[0] == "POST"], watch.refused()
        counts = [len(results_in(prompt)) for prompt in prompts if "<tools>" in prompt]
        assert [count for count, _ in itertools.groupby(counts)][-rounds:] == list(range(rounds)), (counts, offered(prompts[-1]), said)
        assert (self.project / "answer.txt").read_text().strip() == WORD, said
        assert ANSWER in said, said
        if is_kept and os.environ.get("TENON_KEEP_REQUESTS"):
            keep_requests(self, watch)


# ---- Requests that are kept ---------------------------------------------------------------------


def keep_requests(agent, watch):
    """Writes the first request and the last as what test_agent_requests.py sends, the last one without
    what it has from the first. Those beside the loop, such as for a title, have no tools."""
    asked = watch.asked()
    with_tools = [one for one in asked if one[1].get("tools")]
    first, *_, last = with_tools or asked * 2
    (path, body), (_, last) = first, last
    kept = {"path": path, "first": body, "last": {name: value for name, value in last.items() if value != body.get(name)}}
    kept = shortened(kept) if agent.words_are_not_free else kept
    text = json.dumps(kept, indent=1, ensure_ascii=False)
    text = text.replace(str(agent.folder), "/home/user").replace(str(CLIENTS), "/opt/agents")
    for pattern, other in PLACE_AND_TIME:
        text = re.sub(pattern, other, text)
    (CLIENTS / agent.name).mkdir(exist_ok=True)
    (CLIENTS / agent.name / "requests.json").write_text(text + "\n")


PLACE_AND_TIME = [
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "00000000-0000-4000-8000-000000000000"),
    (r"\b[0-9a-f]{32,}\b", "0" * 32),
    (r"\b20\d\d-\d\d-\d\d\b", "2026-01-01"),
    (r"\b([Ll]inux)([ -])\d+\.\d+\.[\w.+-]*\w", r"\1\g<2>6.1.0"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:8080"),
]


def shortened(value):
    """The same with the beginnings of its long texts alone."""
    if isinstance(value, dict):
        return {name: shortened(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shortened(one) for one in value]
    return value[:60] + " ..." if isinstance(value, str) and len(value) > 120 and not value.startswith("{") else value
