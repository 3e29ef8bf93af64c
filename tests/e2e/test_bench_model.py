"""`tenon bench model`: sets of requests, what the answers come to, and what becomes of bad sets, interruptions and engines that fail."""
import contextlib
import io
import json
import os
import pty
import signal
import subprocess
import threading
import time

import pytest
from data import LARGE, over_each_set
from scripted_upstream import CONFIG, TEMPLATE, Handler, Upstream, call
from serving import ROOT, TENON, serving
from test_tools import heed_signals

EXAMPLE = ROOT / "examples" / "requests.jsonl"
LONG = bool(os.environ.get("TENON_LONG"))
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {
    "type": "object", "required": ["plant"], "additionalProperties": False,
    "properties": {"plant": {"type": "string"}, "litres": {"type": "integer"}}}}} for name in ("water", "sow", "prune")]


def wanted(name, **arguments):
    return {"name": name, "arguments": arguments}


def row(category, question, *calls, tools=TOOLS, **expect):
    return {"id": question, "category": category, "tools": tools, "messages": [{"role": "user", "content": question}],
            "expect": {"calls": calls, **expect}}


# By question: the row, the answer, and what is right of it. `type_fixed` is what repair makes right.
ROWS = {
    "exact": (row("single", "exact", wanted("sow", plant=["oak"], litres=[2, ""])), call("sow", {"plant": "oak"})),
    "loose": (row("single", "loose", wanted("sow", plant=["Oak"])), call("sow", {"plant": "oak."})),
    "repaired": (row("single", "repaired", wanted("water", plant=["oak"], litres=[2])), call("water", {"plant": "oak", "litres": "2"})),
    "other": (row("single", "other", wanted("prune", plant=["oak"])), call("sow", {"plant": "oak"})),
    "stranger": (row("single", "stranger", wanted("prune", plant=["oak"])), call("dig", {"plant": "oak"})),
    "both": (row("parallel", "both", wanted("water", plant=["a"]), wanted("water", plant=["b"])),
             call("water", {"plant": "b"}) + "\n" + call("water", {"plant": "a"})),
    "none": (row("no_tool", "none"), "I have no tool for that."),
    "hasty": (row("no_tool", "hasty"), call("sow", {"plant": "oak"})),
    "says": (row("follow_up", "says", mentions=[["17", "seventeen"]]), "It is 17 degrees."),
    "silent": (row("follow_up", "silent", mentions=[["17", "seventeen"]]), "It is warm in 2017."),
}


def bench(*arguments, stdin="", **more):
    return subprocess.run([str(TENON), "bench", "model", *map(str, arguments)], input=stdin, capture_output=True, text=True,
                          timeout=120, cwd=ROOT, **more)


class Recorder(Handler):
    """Keeps what was asked, and waits or fails where a test says so."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/completion":
            self.server.bodies.append(json.loads(body))
            if len(self.server.bodies) > self.server.most:
                self.server.reached.set()
                if self.server.fails:
                    self.close_connection = True
                    return None
                self.server.released.wait(60)
        self.rfile = io.BytesIO(body)
        return super().do_POST()


def answer_of(prompt):
    return ROWS[prompt.rsplit("<|im_start|>user\n", 1)[1].split("<|im_end|>")[0]][1]


@contextlib.contextmanager
def scripted(folder, rows, most=1 << 30, fails=False, script=answer_of):
    """The options for a stand-in that answers `rows`, a set of them, and the stand-in."""
    upstream = Upstream(script, TEMPLATE)
    upstream.RequestHandlerClass = Recorder
    upstream.bodies, upstream.most, upstream.fails = [], most, fails
    upstream.reached, upstream.released = threading.Event(), threading.Event()
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    config, lines = folder / "tenon.toml", folder / "set.jsonl"
    config.write_text(CONFIG.format(name="scripted", port=upstream.server_port, format="hermes"))
    lines.write_text("".join(json.dumps(ROWS[name][0]) + "\n" for name in rows))
    try:
        yield ("--config", config, "--set", lines, "--json", folder / "out.json"), upstream
    finally:
        upstream.released.set()
        upstream.shutdown()
        upstream.server_close()


def count(figure):
    return figure["count"], figure["of"]


def test_figures_are_those_of_the_answers(tmp_path):
    with scripted(tmp_path, ROWS) as (options, upstream):
        run = bench(*options, "--max-tokens", "300", "--failures", "9")
        assert run.returncode == 0 and run.stderr == "", run.stderr
    report = json.loads((tmp_path / "out.json").read_text())
    assert (report["model"], report["engine"], report["format"], report["holding"]) == ("scripted", "llama-server", "hermes", "gbnf")
    assert report["requests"] == report["asked"] == len(ROWS) and report["stopped_by"] is None
    assert report["sets"] == [{"file": str(tmp_path / "set.jsonl"), "requests": len(ROWS), "left_out": 0}]
    held, free = report["constrained"], report["unconstrained"]
    assert list(held["categories"]) == ["single", "parallel", "no_tool", "follow_up"]
    for round, repaired in ((held, 1), (free, 0)):
        total = round["total"]
        assert total["requests"] == sum(part["requests"] for part in round["categories"].values()) == len(ROWS)
        assert count(total["called"]) == (5, 6), "the stranger's call is text"
        assert count(total["json"]) == (7, 7)
        assert count(total["valid"]) == (5 + repaired, 7), "the stranger's call is invalid, and a text is not an integer"
        assert count(total["right_tool"]) == (4, 6)
        assert count(total["exact_arguments"]) == (2 + repaired, 6)
        assert count(total["loose_arguments"]) == (3 + repaired, 6)
        assert count(total["abstention"]) == (3, 4)
        assert count(total["right"]) == (4 + repaired, 10)
        assert count(round["categories"]["follow_up"]["right"]) == (1, 2)
        assert total["right_tool"]["chance"] == pytest.approx((5 / 3 + 1 / 9) / 6)
        assert total["right_tool"]["first_tool"] == pytest.approx(2 / 6)
        assert total["abstention"]["chance"] == pytest.approx(1 / 4)
        assert total["right"]["never_calling"] == pytest.approx(2 / 10)
        assert round["categories"]["no_tool"]["right_tool"]["share"] is None
        wrong = {name for name in ROWS if name not in ("exact", "both", "none", "says") and not (name == "repaired" and repaired)}
        assert {failure["id"] for failure in round["failures"]} == wrong
        assert round["seconds"] > 0 and round["generated_tokens_per_s"] > 0
    # The table has the same, and the wrong answers.
    lines = run.stdout.splitlines()
    assert [line.split()[:2] for line in lines if line.startswith("total")] == [["total", "10"]] * 2
    assert 'wanted prune(plant: "oak")' in run.stdout and 'given  sow({"plant": "oak"})' in run.stdout
    # As it was asked: in turns, greedily, with the tools' grammar and without.
    assert [("grammar" in body, body["temperature"], body["n_predict"]) for body in upstream.bodies] == [
        (True, 0, 300), (False, 0, 300)] * len(ROWS)


@pytest.mark.parametrize(("option", "which"), [(("--constrained",), "constrained"), (("--unconstrained",), "unconstrained"),
                                               (("--way", "held"), "constrained"), (("--way", "free"), "unconstrained")])
def test_one_way_alone(tmp_path, option, which):
    with scripted(tmp_path, ["exact", "none"]) as (options, upstream):
        run = bench(*options, *option)
        assert run.returncode == 0, run.stderr
        assert ["grammar" in body for body in upstream.bodies] == [which == "constrained"] * 2
    report = json.loads((tmp_path / "out.json").read_text())
    assert {"constrained", "unconstrained"} & set(report) == {which}


@pytest.mark.parametrize(("choice", "names"), [("auto", {"water", "sow", "prune"}), ("required", {"water", "sow", "prune"}), ("named", {"sow"})])
def test_calls_may_be_demanded(tmp_path, choice, names):
    with scripted(tmp_path, ["exact", "none", "says"]) as (options, upstream):
        run = bench(*options, "--way", "held", "--choice", choice)
        assert run.returncode == 0, run.stderr
        assert len(upstream.bodies) == (3 if choice == "auto" else 1), "what wants no call is asked with auto alone"
        grammar = upstream.bodies[0]["grammar"]
        assert {name for name in ("water", "sow", "prune") if name in grammar} == names
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["tool_choice"] == choice and report["requests"] == len(upstream.bodies)
    assert f"tool choice {choice}" in run.stdout


def test_the_bundled_model():
    run = bench("--set", EXAMPLE, "--threads", "1", "--json", "-")
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    rows = [json.loads(line) for line in EXAMPLE.read_text().splitlines()]
    held, free = report["constrained"], report["unconstrained"]
    assert report["holding"] == "masks" and held["total"]["requests"] == free["total"]["requests"] == len(rows)
    assert list(held["categories"]) == list(dict.fromkeys(row["category"] for row in rows))
    total = held["total"]
    assert total["valid"]["count"] >= total["valid"]["of"] - total["cut"], "what is held is valid"
    assert total["right_tool"]["of"] == free["total"]["right_tool"]["of"] > 0
    assert held["prompt_tokens_per_s"] > 0 and held["generated_tokens_per_s"] > 0
    assert free["prompt_tokens_per_s"] is None, "the prompts are in the cache by then"


def test_a_server_by_its_address(tmp_path):
    with scripted(tmp_path, ROWS) as (options, _):
        config, lines = options[1], options[3]
        with serving(tmp_path / "serve.log", "--config", str(config)) as server:
            served = bench("--url", server.url, "--set", lines, "--constrained", "--json", "-")
            own = bench("--config", config, "--set", lines, "--constrained", "--json", "-")
            assert served.returncode == own.returncode == 0, served.stderr + own.stderr
            served, own = json.loads(served.stdout), json.loads(own.stdout)
            assert served["engine"] == "openai" and served["model"] == server.url
            for figure in ("right_tool", "exact_arguments", "abstention", "right"):
                assert served["constrained"]["total"][figure] == own["constrained"]["total"][figure], figure
            assert bench("--url", server.url, "--threads", "2", "--set", lines).returncode == 2


@over_each_set
@pytest.mark.parametrize("which", ["constrained", "unconstrained"])
def test_right_answers_to_real_requests_are_right(tmp_path, which, data):
    """The right answers of a set, as a model writes them, read back through template and parser."""
    requests = data / "formats" / "bfcl_public.jsonl"
    rows = [row for row in map(json.loads, requests.read_text().splitlines()) if row.get("valid") is not False]
    limit = len(rows) if LONG or data != LARGE else 100
    asked = iter([rows[i * len(rows) // limit] for i in range(limit)])

    def script(_):
        expected = next(asked)["expected"]
        return "" if expected is None else "\n".join(call(one["name"], one["arguments"]) for one in expected) or "I cannot."

    with scripted(tmp_path, [], script=script) as (options, _):
        run = bench(*options[:2], "--set", requests, f"--{which}", "--limit", limit, "--max-tokens", "100000", "--json", "-")
    assert run.returncode == 0, run.stderr
    total = json.loads(run.stdout)[which]["total"]
    assert total["requests"] == limit and total["refused"] == total["cut"] == 0
    for figure in ("json", "valid", "right_tool", "exact_arguments", "abstention"):
        assert total[figure]["share"] == 1, figure
    relevant = sum(row["expected"] is None for row in rows) if limit == len(rows) else None
    assert relevant is None or count(total["right"]) == (limit - relevant, limit)


def test_a_part_is_taken_evenly(tmp_path):
    lines = "".join(json.dumps(row(f"c{i}", "hi")) + "\n" for i in range(10))
    run = bench("--set", "-", "--limit", "5", "--constrained", "--max-tokens", "1", "--json", "-", stdin=lines)
    report = json.loads(run.stdout)
    assert report["requests"] == 5 and list(report["constrained"]["categories"]) == ["c0", "c2", "c4", "c6", "c8"]
    assert report["sets"] == [{"file": "stdin", "requests": 10, "left_out": 0}]


def test_several_at_once_come_to_the_same(tmp_path):
    figures = []
    for at_once in (1, 4):
        with scripted(tmp_path, ROWS) as (options, upstream):
            run = bench(*options, "--at-once", at_once, "--failures", "99")
            assert run.returncode == 0, run.stderr
            assert len(upstream.bodies) == 2 * len(ROWS)
        report = json.loads((tmp_path / "out.json").read_text())
        assert report["asked"] == len(ROWS)
        figures.append([(way["total"], way["categories"], way["failures"]) for way in (report["constrained"], report["unconstrained"])])
    assert figures[0] == figures[1], "in the order of the set, too"


def test_requests_are_at_work_together(tmp_path):
    with scripted(tmp_path, ROWS, most=0) as (options, upstream):
        program = subprocess.Popen([str(TENON), "bench", "model", *map(str, options), "--at-once", "3"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, cwd=ROOT, preexec_fn=heed_signals)
        deadline = time.monotonic() + 60
        while len(upstream.bodies) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(upstream.bodies) == 3, "the other answers wait"
        program.send_signal(signal.SIGTERM)
        upstream.released.set()
        _, said = program.communicate(timeout=60)
    assert program.returncode == 128 + signal.SIGTERM and b"interrupted" in said
    assert json.loads((tmp_path / "out.json").read_text())["asked"] == 0


def test_a_sample_is_drawn_by_its_seed():
    lines = "".join(json.dumps(row(f"c{i}", "hi")) + "\n" for i in range(100))

    def drawn(*arguments):
        run = bench("--set", "-", "--limit", "8", "--way", "held", "--max-tokens", "1", "--json", "-", *arguments, stdin=lines)
        assert run.returncode == 0, run.stderr
        return [int(name[1:]) for name in json.loads(run.stdout)["constrained"]["categories"]]

    assert drawn("--seed", "7") == drawn("--seed", "7") == sorted(drawn("--seed", "7"))
    assert len({tuple(drawn("--seed", seed)) for seed in range(3)} | {tuple(drawn())}) == 4


def test_several_sets_are_one(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps(row("no_tool", "hi")) + "\n" + '{"valid": false}\n')
    run = bench("--set", EXAMPLE, "--set", tmp_path / "a.jsonl", "--constrained", "--json", "-")
    report = json.loads(run.stdout)
    assert [one["left_out"] for one in report["sets"]] == [0, 1]
    assert report["constrained"]["categories"]["no_tool"]["requests"] == 2


@pytest.mark.parametrize(("line", "said"), [
    ("nonsense", "line 2: line 1, column"), ("{}", "line 2: messages: is missing"),
    (json.dumps({**row("a", "x"), "expect": {"call": []}}), "line 2: expect.call: is not known"),
    (json.dumps(row("a", "x", wanted("dig"))), "line 2: expect.calls[0].name: 'dig' is not one of the tools"),
    (json.dumps({**row("a", "x"), "tools": [{"type": "function"}]}), "line 2: tools[0]"),
    ("[" * 100000, "line 2: "), ('{"a":' * 5000, "line 2: ")])
def test_a_bad_line_is_named(tmp_path, line, said):
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps(row("a", "x")) + "\n" + line + "\n")
    run = bench("--set", path)
    assert run.returncode == 3 and f"{path}, {said}" in run.stderr and run.stdout == "", run.stderr


def test_exit_statuses(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n")
    recursive = tmp_path / "tenon.toml"
    recursive.write_text('[[model]]\nname = "r"\nengine = "rlm"\nroot = "m"\n[[model]]\nname = "m"\n'
                         f'path = "{ROOT / "models" / "tenon-tiny.gguf"}"\n')
    for arguments, status, said in [
            ((), 2, "--set"), (("--set", EXAMPLE, "--limit", "0"), 2, "--limit"), (("--set", "/nowhere.jsonl"), 3, "/nowhere.jsonl"),
            (("--set", tmp_path / "empty.jsonl"), 3, "there is no request in it"),
            (("--set", EXAMPLE, "--json", "/no/such/place"), 3, "/no/such/place"),
            (("--set", EXAMPLE, "--model", "/nowhere.gguf"), 4, "/nowhere.gguf"),
            (("--set", EXAMPLE, "--config", recursive), 2, "'r' is a recursive model"),
            (("--set", EXAMPLE, "--seed", "1"), 2, "--seed"), (("--set", EXAMPLE, "--choice", "none"), 2, "--choice"),
            (("--set", EXAMPLE, "--way", "held", "--unconstrained"), 2, "--unconstrained"),
            (("--set", EXAMPLE, "--url", "http://127.0.0.1:1"), 4, "127.0.0.1:1")]:
        run = bench(*arguments)
        assert run.returncode == status and said in run.stderr, (arguments, run.returncode, run.stderr)
    assert subprocess.run([str(TENON), "bench"], capture_output=True, text=True, timeout=60).returncode == 2


def test_a_request_that_is_refused_is_wrong(tmp_path):
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps({**row("a", "word " * 30000), "id": ""}) + "\n")
    run = bench("--set", path, "--constrained", "--failures", "1", "--json", "-")
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)["constrained"]
    assert report["total"]["refused"] == 1 and count(report["total"]["right"]) == (0, 1)
    assert report["failures"][0]["given"].startswith("refused: ")
    assert report["first_refusal"].startswith(f"{path}, line 1: ")
    shown = bench("--set", path, "--constrained").stdout
    assert f"constrained: 1 request refused, counted as wrong; the first was {path}, line 1: " in shown.splitlines()[-1]


def test_an_answer_that_takes_too_long_is_wrong(tmp_path):
    with scripted(tmp_path, ["exact", "none", "both"], most=1) as (options, _):
        run = bench(*options, "--constrained", "--timeout", "1")
    assert run.returncode == 0, run.stderr
    report = json.loads((tmp_path / "out.json").read_text())["constrained"]
    assert report["total"]["refused"] == 2 and count(report["total"]["right"]) == (1, 3)
    assert report["first_refusal"] == "none: its time was over (--timeout)"


def test_a_key_that_is_not_taken_is_named(tmp_path):
    keys = subprocess.run([str(TENON), "key", "ann"], capture_output=True, text=True, check=True).stdout
    (tmp_path / "keys.txt").write_text(keys)
    with serving(tmp_path / "serve.log", "--model", str(ROOT / "models" / "tenon-tiny.gguf"), "--api-keys", str(tmp_path / "keys.txt")) as server:
        run = bench("--url", server.url, "--set", EXAMPLE, env={**os.environ, "TENON_API_KEY": "sk-wrong"})
    assert run.returncode == 4 and "does not take the key" in run.stderr and "the key in TENON_API_KEY" in run.stderr, run.stderr


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_tells_what_there_is(tmp_path, by):
    with scripted(tmp_path, ["exact", "none", "both"], most=5) as (options, upstream):
        process = subprocess.Popen([str(TENON), "bench", "model", *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, preexec_fn=heed_signals)
        assert upstream.reached.wait(60)
        process.send_signal(by)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + by, err
    assert "asked: 2 of 3, " in out and "interrupted" in err
    report = json.loads((tmp_path / "out.json").read_text())
    assert (report["asked"], report["requests"]) == (2, 3) and "interrupted" in report["stopped_by"]
    for round in ("constrained", "unconstrained"):
        assert count(report[round]["total"]["right"]) == (2, 2), "what one way alone has answered does not count"


def test_an_engine_that_fails_leaves_what_there_is(tmp_path):
    with scripted(tmp_path, ["exact", "none", "both"], most=4, fails=True) as (options, _):
        run = bench(*options)
    assert run.returncode == 4 and "asked: 2 of 3, " in run.stdout and run.stderr.startswith("tenon: "), run.stderr
    assert json.loads((tmp_path / "out.json").read_text())["stopped_by"]


def test_progress_is_for_terminals(tmp_path):
    with scripted(tmp_path, ["exact", "loose", "none"]) as (options, _):
        screen, inner = pty.openpty()
        with subprocess.Popen([str(TENON), "bench", "model", *map(str, options)], stdout=subprocess.PIPE, stderr=inner) as process:
            os.close(inner)
            shown = b""
            with contextlib.suppress(OSError):  # EIO: all writers are gone
                while piece := os.read(screen, 4096):
                    shown += piece
            out = process.stdout.read()
            assert process.wait(60) == 0
        os.close(screen)
    assert b"0/3" in shown and b"3/3  right 66.7 %" in shown, shown
    assert shown.endswith(b"\r\033[K") and b"\033" not in out and b"\n" not in shown
