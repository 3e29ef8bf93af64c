"""Answers are recorded, and replayed without the model (docs/recording.md)."""
import json
import subprocess
import time

import pytest
import requests
from recursive import ask as asks
from recursive import recursive, turns
from serving import ROOT, TENON, serving
from tools import user

TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}}}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "tenon.toml").write_text(
        f'[server]\nrecord_logprobs = 3\n[[model]]\nname = "tenon-tiny"\npath = "{ROOT / "models" / "tenon-tiny.gguf"}"\n'
        "max_tokens = 60\nclose_calls = true\n")
    with serving(folder / "serve.log", "--config", str(folder / "tenon.toml"), "--record", str(folder / "records")) as server:
        server.records = folder / "records"
        yield server


def replay(file, *options):
    return subprocess.run([TENON, "replay", *options, file], capture_output=True, text=True, timeout=60)


def record(server, path, body, headers=None):
    """Asks, and returns the answer's text and its recording."""
    answer = requests.post(server.url + path, json=body, headers=headers, timeout=60)
    name = answer.headers["x-request-id"]
    for _ in range(100):
        files = list(server.records.glob(f"*/*-{name}.jsonl"))
        if files and '{"end":' in files[0].read_text():
            return answer.text, files[0]
        time.sleep(0.05)
    raise AssertionError(f"there is no whole recording of {name}: {files}")


CHAT = {"model": "tenon-tiny", "messages": user("What is the weather in Paris?"), "tools": [TOOL], "seed": 7}
LONG = {"type": "json_schema", "json_schema": {"name": "long", "schema": {
    "type": "array", "items": {"enum": ["sun", "rain"]}, "minItems": 1000}}}  # takes seconds
MESSAGES = {"model": "tenon-tiny", "max_tokens": 60, "messages": user("What is the weather in Paris?"),
            "tools": [{"name": "get_weather", "input_schema": TOOL["function"]["parameters"]}]}
RESPONSES = {"model": "tenon-tiny", "input": "What is the weather in Paris?", "store": False,
             "tools": [{"type": "function", **TOOL["function"]}]}


@pytest.mark.parametrize("path, body", [
    ("/v1/chat/completions", CHAT),
    ("/v1/chat/completions", {**CHAT, "stream": True}),
    ("/v1/chat/completions", {**CHAT, "tool_choice": "required", "stream": True, "stream_options": {"include_usage": True}}),
    ("/v1/chat/completions", {**CHAT, "n": 4, "stream": True, "tools": [], "temperature": 1.5}),
    ("/v1/completions", {"model": "tenon-tiny", "prompt": ["One", "Two"], "n": 2, "stream": True, "max_tokens": 20, "seed": 7}),
    ("/v1/chat/completions", {**CHAT, "tools": [], "tool_choice": "none", "stop": ["e"]}),
    ("/v1/chat/completions", {**CHAT, "logprobs": True, "top_logprobs": 2, "tool_choice": "none"}),
    ("/v1/messages", MESSAGES),
    ("/v1/messages", {**MESSAGES, "stream": True, "tool_choice": {"type": "any"}}),
    ("/v1/responses", RESPONSES),
    ("/v1/responses", {**RESPONSES, "stream": True, "tool_choice": "required"}),
], ids=["chat", "chat-stream", "chat-required", "chat-choices", "completion-choices", "chat-stop", "chat-logprobs", "messages", "messages-stream", "responses", "responses-stream"])
def test_a_recording_is_replayed_to_the_byte(recorded, path, body):
    text, file = record(recorded, path, body)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert "".join(line["sent"] for line in lines if "sent" in line) == text
    assert lines[0]["request"] == body and lines[-1]["end"] == 200
    same = replay(file, "--expect")
    assert same.returncode == 0, same.stdout + same.stderr
    assert same.stdout.startswith("the same: ")


def test_what_a_request_goes_on_from_is_in_the_recording(recorded):
    first, _ = record(recorded, "/v1/responses", {**RESPONSES, "store": True})
    body = {**RESPONSES, "store": True, "input": "And tomorrow?", "previous_response_id": json.loads(first)["id"]}
    text, file = record(recorded, "/v1/responses", {**body, "stream": True})
    assert json.loads(file.read_text().splitlines()[0])["found"][body["previous_response_id"]]["response"]["object"] == "response"
    assert body["previous_response_id"] in text
    same = replay(file, "--expect")
    assert same.returncode == 0, same.stdout + same.stderr
    made = requests.post(recorded.url + "/v1/conversations", json={"items": [{"role": "user", "content": "Paris?"}]}, timeout=60)
    _, file = record(recorded, "/v1/responses", {**RESPONSES, "conversation": made.json()["id"]})
    same = replay(file, "--expect")
    assert same.returncode == 0, same.stdout + same.stderr


def test_a_change_is_told(recorded, tmp_path):
    _, file = record(recorded, "/v1/chat/completions", CHAT)
    changed = tmp_path / "changed.jsonl"
    changed.write_text(file.read_text().replace('"finish_reason\\":\\"', '"finish_reason\\":\\"not_'))
    differs = replay(changed, "--expect")
    assert differs.returncode == 1 and "line 1 differs" in differs.stdout, differs.stdout + differs.stderr


def test_a_choice_that_the_request_does_not_ask_for_is_damage(recorded, tmp_path):
    _, file = record(recorded, "/v1/chat/completions", {**CHAT, "n": 2, "tools": []})
    changed = tmp_path / "changed.jsonl"
    changed.write_text(file.read_text().replace('"choice":1', '"choice":5'))
    refused = replay(changed, "--expect")  # it would wait for choice 5
    assert refused.returncode == 3 and "choice 5 has a run, but the request asks for 2 in all" in refused.stderr, refused.stderr


def test_a_replay_whose_own_recording_cannot_be_written_says_so(recorded, tmp_path):
    _, file = record(recorded, "/v1/chat/completions", CHAT)
    for day in (0, 1):  # no folder of that day can be made
        (tmp_path / time.strftime("%Y-%m-%d", time.gmtime(time.time() + day * 86400))).write_text("in the way")
    failed = replay(file, *MODEL, "--expect", "--record", tmp_path)
    assert failed.returncode == 3 and "recording of the new answer could not be written" in failed.stderr, failed.stderr
    assert str(tmp_path) in failed.stderr and failed.stdout == ""


def test_what_is_left_out_inside_of_a_member_is_told(recorded):
    _, file = record(recorded, "/v1/chat/completions", {**CHAT, "max_tokens": 5})
    told = replay(file, *MODEL, "--with", json.dumps({"tools": [TOOL, {"type": "web_search"}]}))
    assert told.returncode == 0 and "--with: tools[1] is not known to this version, or not supported, and is left out" in told.stderr, told.stderr


def test_a_model_goes_on_from_a_recorded_token(recorded, tmp_path):
    _, file = record(recorded, "/v1/chat/completions", {**CHAT, "tool_choice": "required", "temperature": 0})
    model = MODEL
    tokens = [line for line in map(json.loads, file.read_text().splitlines()) if "token" in line]
    for fork in (0, 1, len(tokens) // 2, len(tokens)):
        same = replay(file, *model, "--fork", str(fork), "--expect", "--with", '{"tool_choice": "required"}')
        assert same.returncode == 0, f"{fork}: {same.stdout}{same.stderr}"
    other = {"tools": [{**TOOL, "function": {**TOOL["function"], "name": "set_alarm"}}]}
    differs = replay(file, *model, "--expect", "--with", json.dumps(other), "--record", tmp_path / "forks")
    assert differs.returncode == 1 and '- call 0 of "get_weather"' in differs.stdout, differs.stdout + differs.stderr
    assert '+ call 0 of "set_alarm"' in differs.stdout
    made, = (tmp_path / "forks").glob("*/*.jsonl")
    assert replay(made, "--expect").returncode == 0  # a recording like those of servers
    for expect in ([], ["--expect"]):
        refused = replay(file, *model, "--fork", str(len(tokens) - 1), "--with", json.dumps(other), *expect)
        assert refused.returncode == 3 and "cannot come there under this request: fork before it" in refused.stderr, refused.stderr
        assert refused.stdout == ""
    many = replay(file, *model, "--fork", str(len(tokens) + 1))
    assert many.returncode == 3 and f"has only {len(tokens)} tokens" in many.stderr


MODEL = ["--model", str(ROOT / "models" / "tenon-tiny.gguf")]


@pytest.mark.parametrize("options, status, message", [
    (["--fork", "3"], 2, "--fork has no effect without --model"),
    (["--events", "--expect"], 2, "--expect has no effect with --events"),
    (["--events", *MODEL], 2, "--model has no effect with --events"),
    ([*MODEL, "--with", '{"sede": 7, "seed": 7}'], 2, "--with: sede is not known to this version"),
    ([*MODEL, "--with", "[]"], 2, "--with must be a JSON object"),
    ([*MODEL, "--with", '{"seed": 7'], 2, "--with must be a JSON object"),
    ([*MODEL, "--with", '{"max_tokens": "x"}'], 3, "the request was refused with status 400: max_tokens must be"),
    ([*MODEL, "--with", '{"max_tokens": "x"}', "--expect"], 3, "the request was refused with status 400: max_tokens must be"),
    ([*MODEL, "--format", "nope"], 3, "unknown tool_call_format: nope"),
    ([*MODEL, "--chat-template", "/nope"], 3, "/nope: No such file"),
    (["--model", "/nope.gguf"], 4, "/nope.gguf"),
])
def test_a_fault_of_the_command_line_is_told_as_such(recorded, options, status, message):
    _, file = record(recorded, "/v1/chat/completions", {**CHAT, "max_tokens": 5})
    refused = replay(file, *options)
    assert refused.returncode == status and message in refused.stderr, refused.stderr
    assert file.name not in refused.stderr and refused.stdout == ""


@pytest.mark.parametrize("path, body", [
    ("/v1/chat/completions", {**CHAT, "return_token_ids": True}),
    ("/v1/chat/completions", {**CHAT, "tenon": {"tokens": True}}),
    ("/v1/completions", {"model": "tenon-tiny", "prompt": [5, 6, 7], "max_tokens": 5}),
    ("/v1/completions", {"model": "tenon-tiny", "prompt": [[5, 6, 7]], "max_tokens": 5}),
])
def test_requests_with_tokens_are_not_replayed(recorded, path, body):
    _, file = record(recorded, path, body)
    refused = replay(file, "--expect")
    assert refused.returncode == 3 and "the request has tokens in or out" in refused.stderr, refused.stdout + refused.stderr
    assert replay(file, *MODEL).returncode == 0


def test_help_says_what_answers_without_a_model():
    told = subprocess.run([TENON, "replay", "--help"], capture_output=True, text=True, check=True).stdout
    assert "default: none, and the recorded tokens are replayed" in told and "the bundled model" not in told


def test_an_answer_whose_client_left_is_compared_with_nothing(recorded):
    with requests.post(recorded.url + "/v1/chat/completions", json={**CHAT, "stream": True, "response_format": LONG, "max_tokens": 4000},
                       stream=True, timeout=60) as answer:
        name = answer.headers["x-request-id"]
        lines = answer.iter_lines()
        next(lines)
    for _ in range(100):
        file, = recorded.records.glob(f"*/*-{name}.jsonl")
        if '{"end":' in file.read_text():
            break
        time.sleep(0.05)
    for options in ([], ["--expect"], [*MODEL, "--expect"]):
        refused = replay(file, *options)
        assert refused.returncode == 3 and "the client left before the end" in refused.stderr, refused.stderr


def test_events_say_how_far_they_go(recorded, tmp_path):
    _, file = record(recorded, "/v1/chat/completions", {**CHAT, "tool_choice": "required"})
    lines = file.read_text().splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if line.startswith('{"event"'))
    cut = tmp_path / "cut.jsonl"
    for size, count, told in ((len(lines), None, ""), (first + 1, 1, "the recording is not whole and ends here"),
                              (first, 0, "ends before the first event"), (2, 0, "ends before the first event")):
        cut.write_text("".join(lines[:size]))
        shown = replay(cut, "--events")
        assert shown.returncode == 0 and told in shown.stderr and (told != "") == (shown.stderr != ""), shown.stderr
        assert count is None or len(shown.stdout.splitlines()) == count
    cut.write_text("".join(lines).replace('{"token":', '{"token":"', 1))
    damaged = replay(cut, "--events")
    assert damaged.returncode == 3 and "line 4: this is not JSON" in damaged.stderr, damaged.stderr


def test_a_fork_says_what_it_is_one_of(recorded, tmp_path):
    _, file = record(recorded, "/v1/chat/completions", {**CHAT, "tool_choice": "required", "temperature": 0})
    of = [json.loads(line) for line in file.read_text().splitlines()]
    assert replay(file, *MODEL, "--fork", "5", "--record", tmp_path).returncode == 0
    made, = tmp_path.glob("*/*.jsonl")
    lines = [json.loads(line) for line in made.read_text().splitlines()]
    assert lines[0]["replay_of"] == {"id": of[0]["id"], "began": of[0]["began"], "tokens": 5}
    assert "replay_of" not in of[0]

    def kept(lines):
        return [{key: value for key, value in line.items() if key != "at"} for line in lines if "token" in line][:5]

    assert kept(lines) == kept(of) and all("legal" in token and "top" in token for token in kept(lines))


def test_a_replay_finds_its_own_recording_among_newer_ones(recorded, tmp_path):
    _, file = record(recorded, "/v1/chat/completions", {**CHAT, "tool_choice": "required", "temperature": 0})
    (tmp_path / "2099-01-01").mkdir()
    other = file.read_text().replace('"event":"call_begin"', '"event":"other"')
    (tmp_path / "2099-01-01" / "000000-000-req_newer.jsonl").write_text(other.replace('"id":"req_', '"id":"other_', 1))
    same = replay(file, *MODEL, "--expect", "--record", tmp_path)
    assert same.returncode == 0, same.stdout + same.stderr


def test_tokens_have_what_the_mask_allowed(recorded):
    _, file = record(recorded, "/v1/chat/completions", {**CHAT, "tool_choice": "required"})
    tokens = [line for line in map(json.loads, file.read_text().splitlines()) if "token" in line]
    assert tokens and all(token["legal"] >= 1 and len(token["top"]) == 3 for token in tokens)
    assert any(not legal for token in tokens for _, _, legal in token["top"])
    run = next(line for line in map(json.loads, file.read_text().splitlines()) if "run" in line and "spans" in line)
    assert run["spans"][0][0] == 0 and run["spans"][-1][1] == len(run["text"].encode())
    assert len(run["ids"]) > 10


def test_recordings_are_listed_and_read(recorded):
    _, file = record(recorded, "/v1/chat/completions", CHAT)
    url = recorded.url + "/inspector/api/recordings"
    listed = requests.get(url, params={"limit": 1}, timeout=60).json()
    newest = listed["recordings"][0]
    assert recorded.records / newest["name"] == file and newest["status"] == 200 and not newest["live"]
    assert requests.get(f"{url}/{newest['name']}", timeout=60).text == file.read_text()
    assert requests.get(f"{url}/{newest['name']}", params={"from": 10}, timeout=60).text == file.read_text()[10:]
    for name in ("../tenon.toml", "x", "2026-01-01/none.jsonl"):
        assert requests.get(f"{url}/{name}", timeout=60).status_code == 404


@pytest.mark.parametrize("query, param, message", [
    ("limit=0", "limit", "limit must be a whole number from 1 to 1000"),
    ("limit=1001", "limit", "limit must be a whole number from 1 to 1000"),
    ("limit=-1", "limit", "limit must be a whole number from 1 to 1000"),
    ("limit=", "limit", "limit must be a whole number from 1 to 1000"),
    ("before=nope", "before", "before must be the name of a recording"),
    ("befor=2026-01-01/a.jsonl", "befor", "is not a field of this request's query"),
])
def test_a_wrong_query_of_the_list_is_refused(recorded, query, param, message):
    answer = requests.get(f"{recorded.url}/inspector/api/recordings?{query}", timeout=60)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == param, answer.text
    assert message in answer.json()["error"]["message"]


def test_a_place_in_a_recording_is_a_number(recorded):
    _, file = record(recorded, "/v1/chat/completions", {**CHAT, "max_tokens": 5})
    url = f"{recorded.url}/inspector/api/recordings/{file.parent.name}/{file.name}"
    for place, status in (("-1", 400), ("x", 400), ("99999999999999999999", 400), ("0", 200), ("1000000", 200)):
        answer = requests.get(url, params={"from": place}, timeout=60)
        assert answer.status_code == status, answer.text
        assert status == 200 or "from must be a whole number" in answer.json()["error"]["message"]


def test_an_answer_that_is_refused_late_says_why(recorded):
    text, file = record(recorded, "/v1/chat/completions", {**CHAT, "messages": user("word " * 40_000)})
    message = json.loads(text)["error"]["message"]
    end = json.loads(file.read_text().splitlines()[-1])
    assert end["end"] == 400 and end["error"] == message, end
    refused = replay(file)
    assert refused.returncode == 3 and "the engine refused the request" in refused.stderr
    again = replay(file, *MODEL)
    assert again.returncode == 3 and message in again.stderr and again.stdout == ""
    same = replay(file, *MODEL, "--expect")
    assert same.returncode == 0, same.stdout + same.stderr


def test_a_killed_server_leaves_no_answer_under_way(tmp_path):
    records = tmp_path / "records"
    model = ["--model", str(ROOT / "models" / "tenon-tiny.gguf"), "--record", str(records)]

    def listed(server):
        return requests.get(server.url + "/inspector/api/recordings", timeout=60).json()["recordings"]

    with serving(tmp_path / "serve.log", *model) as server:
        body = {**CHAT, "tools": [], "stream": True, "max_tokens": 4000, "response_format": LONG}
        with requests.post(server.url + "/v1/chat/completions", json=body, stream=True, timeout=60) as answer:
            lines = answer.iter_lines()  # kept: without it the connection is closed
            next(lines)
            for _ in range(100):
                if listed(server):
                    break
                time.sleep(0.05)
            assert [one["live"] for one in listed(server)] == [True]
            server.process.kill()
            server.process.wait()
    with serving(tmp_path / "again.log", *model) as server:
        one, = listed(server)
        assert one["live"] is False and "status" not in one


def test_a_server_that_records_nothing_says_so(server):
    answer = requests.get(server.url + "/inspector/api/recordings", timeout=60)
    assert answer.status_code == 404 and answer.json()["error"]["code"] == "recording_not_found"


def test_only_named_owners_see_recordings(tmp_path):
    keys = {}
    for name in ("ann", "bob"):
        made = json.loads(subprocess.run([TENON, "key", name, "--json"], capture_output=True, text=True, check=True).stdout)
        keys[name] = made
    (tmp_path / "keys").write_text("".join(made["line"] + "\n" for made in keys.values()))
    (tmp_path / "tenon.toml").write_text(
        f'[server]\nrecord = "records"\ninspectors = ["ann"]\napi_keys_file = "{tmp_path / "keys"}"\n'
        f'[[model]]\nname = "tenon-tiny"\npath = "{ROOT / "models" / "tenon-tiny.gguf"}"\n')
    with serving(tmp_path / "serve.log", "--config", str(tmp_path / "tenon.toml")) as server:
        statuses = {name: requests.get(server.url + "/inspector/api/recordings", timeout=60,
                                       headers={"Authorization": f"Bearer {made['key']}"}).status_code
                    for name, made in keys.items()}
        assert statuses == {"ann": 200, "bob": 403}
        assert requests.get(server.url + "/inspector/api/recordings", timeout=60).status_code == 401
        body = {**CHAT, "max_tokens": 5}
        requests.post(server.url + "/v1/chat/completions", json=body, timeout=60,
                      headers={"Authorization": f"Bearer {keys['bob']['key']}"})
    text = "".join(file.read_text() for file in (tmp_path / "records").glob("*/*.jsonl"))
    assert "weather" in text
    assert all(made["key"] not in text for made in keys.values())


def test_without_contents_a_recording_has_none(tmp_path):
    (tmp_path / "tenon.toml").write_text(
        '[server]\nrecord = "records"\nlog_contents = false\n'
        f'[[model]]\nname = "tenon-tiny"\npath = "{ROOT / "models" / "tenon-tiny.gguf"}"\n')
    with serving(tmp_path / "serve.log", "--config", str(tmp_path / "tenon.toml")) as server:
        server.records = tmp_path / "records"
        _, file = record(server, "/v1/chat/completions", {**CHAT, "tool_choice": "required", "max_tokens": 40})
    text = file.read_text()
    assert "weather" not in text and "Paris" not in text
    for options in ([], [*MODEL]):
        refused = replay(file, *options)
        assert refused.returncode == 3 and "no contents" in refused.stderr
    shown = replay(file, "--events")
    assert shown.returncode == 0 and '"finish":' in shown.stdout, shown.stderr


def test_the_models_that_a_recursive_model_asks_are_runs(tmp_path):
    code = "```repl\nparts = llm_query_batched(['a', 'b'])\nprint(parts)\n```"
    with recursive(tmp_path, turns(code, "FINAL_VAR(parts)"), server=f'record = "{tmp_path / "records"}"') as (server, policy):
        server.records = tmp_path / "records"
        text, file = record(server, "/v1/chat/completions", asks("q"))
    assert json.loads(text)["choices"][0]["finish_reason"] == "stop"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    runs = [line for line in lines if "run" in line and "choice" in line and "part" in line]
    assert [run["run"] for run in runs] == list(range(4))
    assert sorted(run["part"] for run in runs) == ["question", "question", "root", "root"]
    ended = [line for line in lines if "run_end" in line]
    assert sorted(line["run"] for line in ended) == list(range(4)) and all(line["run_end"] == "stop" for line in ended)
    texts = {number: "".join(line.get("text", "") for line in lines if line.get("run") == number and ("token" in line or "piece" in line))
             for number in range(4)}
    assert sorted(texts[run["run"]] for run in runs if run["part"] == "question") == ["<a>", "<b>"]
    assert texts[runs[0]["run"]] == code
    done = replay(file)
    assert done.returncode == 3 and "recursive model" in done.stderr
