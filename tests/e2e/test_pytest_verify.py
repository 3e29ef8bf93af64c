"""`pytest --tenon-verify URL`, and the workflow of docs/verify.md: each check is a test in the CI of other projects."""
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree

import pytest
from serving import ROOT, TENON, free_port
from test_verify import error_of, serving_answers, text_answer

PLUGIN = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]["tenon-verify"]
PAGE = ROOT / "docs/verify.md"


@pytest.fixture
def tests(tmp_path):
    """Another project: a folder with a test of its own, where the plugin is installed."""
    (tmp_path / "test_own.py").write_text("def test_own():\n    pass\n")

    def run(*arguments, **environment):
        names = ("PATH", "HOME", "LANG", "TMPDIR")
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", PLUGIN, "--tb=short", "-q", "-rA", "--junitxml=junit.xml", *arguments], cwd=tmp_path,
            env={**{name: os.environ[name] for name in names if name in os.environ}, "PYTHONPATH": str(ROOT / "python"),
                 "TENON_BIN": str(TENON), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "250", **environment},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)

    run.folder = tmp_path
    return run


def outcomes(tests):
    """{id: "passed", "failed" or "skipped"}, as a CI reads them."""
    cases = xml.etree.ElementTree.parse(tests.folder / "junit.xml").iter("testcase")
    words = {"failure": "failed", "error": "failed", "skipped": "skipped"}
    return {f"{case.get('classname')}.{case.get('name')}": next((words[part.tag] for part in case if part.tag in words), "passed") for case in cases}


def test_each_check_is_a_test(tests, player):
    done = tests("--tenon-verify", player.url, "--tenon-verify-played", "--tenon-verify-group=choice", "--tenon-verify-group=schemas/format_uuid",
                 "--tenon-verify-html=v.html", "--tenon-verify-json=v.json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = outcomes(tests)
    assert found["test_own.test_own"] == "passed" and found["tenon-verify.choice.none_makes_no_call"] == "passed"
    assert found["tenon-verify.schemas.format_uuid"] == "skipped"
    assert "schemas/format_uuid: not supported: the keyword is only a remark" in done.stdout
    report = json.loads((tests.folder / "v.json").read_text())
    assert len(report["results"]) == len(found) - 1 and "choice/none_makes_no_call" in (tests.folder / "v.html").read_text()


@pytest.mark.parametrize("fault", ["finish_stop_with_calls", "arguments_not_json"])
def test_a_fault_is_a_failed_test(tests, faulty, fault):
    done = tests("--tenon-verify", faulty.url, "--tenon-verify-model", f"played+{fault}", "--tenon-verify-played", "--tenon-verify-group=protocol")
    assert done.returncode == 1, done.stdout + done.stderr
    failed = {name for name, outcome in outcomes(tests).items() if outcome == "failed"}
    assert {"finish_stop_with_calls": "tenon-verify.protocol.finish_says_calls",
            "arguments_not_json": "tenon-verify.protocol.arguments_are_json"}[fault] in failed
    assert f'sent: {{"model":"played+{fault}"' in done.stdout and 'came: {"id"' in done.stdout


def test_what_a_model_would_not_do_is_skipped(tests):
    with serving_answers(lambda handler, body: (200, text_answer("Hello."), {})) as url:
        done = tests("--tenon-verify", url, "--tenon-verify-tries=2", "--tenon-verify-group=choice/auto_may_call")
    assert done.returncode == 0 and outcomes(tests)["tenon-verify.choice.auto_may_call"] == "skipped"
    assert "choice/auto_may_call: undecided: " in done.stdout


def test_the_key_is_read_from_the_environment(tests):
    def answer(handler, body):
        return (200, text_answer("Hello."), {}) if handler.headers["authorization"] == "Bearer secret-417" else (401, error_of("no"), {})

    with serving_answers(answer) as url:
        asked = ("--tenon-verify", url, "--tenon-verify-api-key-env=MY_KEY", "--tenon-verify-group=protocol/text_is_answered")
        assert tests(*asked, MY_KEY="secret-417").returncode == 0
        assert tests(*asked).returncode == 1


def test_a_server_that_hangs_is_one_failure(tests):
    asked = []

    def answer(handler, body):
        asked.append(body)
        if len(asked) > 3:
            time.sleep(3)
        return 200, text_answer("Hello."), {}

    with serving_answers(answer) as url:
        done = tests("--tenon-verify", url, "--tenon-verify-timeout=1", "--tenon-verify-group=text", "--timeout=2")
    assert done.returncode == 1 and "not asked: the server answered no more after" in done.stdout, done.stdout
    assert ": not asked\n" in done.stdout


def test_marks_and_selections_are_those_of_pytest(tests, faulty):
    [snippet] = [block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "xfail" in block]
    (tests.folder / "conftest.py").write_text(snippet)
    asked = ("--tenon-verify", faulty.url, "--tenon-verify-model=played+finish_stop_with_calls", "--tenon-verify-played", "--tenon-verify-json=v.json")
    done = tests(*asked, "--strict-markers", "-m", "tenon_verify", "-k", "finish_says_calls or usage")
    assert done.returncode == 0 and "issue 7" in done.stdout, done.stdout + done.stderr
    assert "tenon-verify.protocol.usage_is_there" in outcomes(tests) and "test_own.test_own" not in outcomes(tests)
    report = json.loads((tests.folder / "v.json").read_text())  # only what was selected is asked
    assert all(result["check"] == "finish_says_calls" or "usage" in result["check"] for result in report["results"])

    (tests.folder / "conftest.py").unlink()
    assert tests(*asked, "--tenon-verify-group=protocol").returncode == 1
    again = tests(*asked, "--tenon-verify-group=protocol", "--lf")
    assert again.returncode == 1 and "passed" not in outcomes(tests).values(), again.stdout


def test_processes_of_one_run_ask_once(tests):
    asked = []
    with serving_answers(lambda handler, body: asked.append(body) or (200, text_answer("Hello."), {})) as url:
        counts, found = [], []
        for processes in ("0", "2"):
            before = len(asked)
            tests("--tenon-verify", url, "--tenon-verify-tries=1", "--tenon-verify-group=protocol", "-n", processes)
            counts.append(len(asked) - before)
            found.append(outcomes(tests))
    assert counts[0] == counts[1] > 10 and found[0] == found[1]


def test_a_server_that_is_not_there_is_one_failure(tests):
    done = tests("--tenon-verify", f"http://127.0.0.1:{free_port()}", "--tenon-verify-group=choice")
    verdicts = list(outcomes(tests).values())
    assert done.returncode == 1 and verdicts.count("failed") == 1 and verdicts.count("passed") == 1, done.stdout
    assert "cannot be reached" in done.stdout


@pytest.mark.parametrize("arguments", [(), ("-n", "2")])
@pytest.mark.parametrize("conftest, failed", [
    ("", 1),
    ("import pytest\n\ndef pytest_collection_modifyitems(items):\n    for item in items:\n        item.add_marker(pytest.mark.xfail)\n", 0),
    # As pytest-rerunfailures does: what fails is run once more, and the last outcome holds.
    ("from _pytest.runner import runtestprotocol\n\ndef pytest_runtest_protocol(item, nextitem):\n"
     "    runtestprotocol(item, nextitem=nextitem, log=False)\n"
     "    for report in runtestprotocol(item, nextitem=nextitem, log=False):\n"
     "        item.ihook.pytest_runtest_logreport(report=report)\n    return True\n", 1),
])
def test_a_server_that_is_not_there_is_no_success(tests, arguments, conftest, failed):
    (tests.folder / "conftest.py").write_text(conftest)
    done = tests("--tenon-verify", f"http://127.0.0.1:{free_port()}", "--tenon-verify-group=choice", *arguments)
    assert done.returncode == 1 and list(outcomes(tests).values()).count("failed") == failed, done.stdout
    assert re.search(r"tenon verify: (\d+) of \1 checks have no result: .*cannot be reached", done.stdout), done.stdout


def test_what_pytest_counts_and_shows(tests, player):
    (tests.folder / "test_broken.py").write_text("import no_such_module\n")
    asked = ("--tenon-verify", player.url, "--tenon-verify-played", "--tenon-verify-group=protocol/usage_is_there", "--tenon-verify-group=choice")
    done = tests(*asked, "--continue-on-collection-errors")
    assert done.returncode == 1 and outcomes(tests)["tenon-verify.protocol.usage_is_there"] == "passed", done.stdout
    assert tests(*asked).returncode == 2  # pytest's own: an error while it collects
    (tests.folder / "test_broken.py").unlink()
    for option in ("--setup-plan", "--setup-only"):
        done = tests("--tenon-verify", "http://127.0.0.1:1", "--tenon-verify-group=choice", option)
        assert done.returncode == 0 and "no result" not in done.stdout, done.stdout
    counted = tests(*asked, "-v", "-v", "-k", "usage_is_there").stdout  # "-q" and two "-v" make one
    total, deselected = map(int, re.search(r"collected (\d+) items / (\d+) deselected / 1 selected", counted).groups())
    assert total == deselected + 1 > 5


@pytest.mark.parametrize("arguments, words", [
    (["--tenon-verify-group=nonsense"], "there is no such group or check"),
    (["--tenon-verify-json=no/v.json"], "--tenon-verify-json no/v.json: a file in a folder that exists is needed"),
    (["--tenon-verify-html=."], "--tenon-verify-html .: a file in a folder that exists is needed"),
    (["--tenon-verify", ""], "--tenon-verify is empty"),
    (["--tenon-verify-command=/no/such/tenon"], "/no/such/tenon is not a program; --tenon-verify-command says where it is"),
])
def test_mistakes_on_the_command_line(tests, arguments, words):
    for processes in ("0", "2"):
        done = tests("--tenon-verify", "http://127.0.0.1:1", "-n", processes, *arguments)
        assert done.returncode == 4 and words in done.stderr and "INTERNALERROR" not in done.stdout, done.stdout + done.stderr


def test_nothing_is_asked_without_the_option_or_where_tests_are_listed(tests):
    assert tests().returncode == 0 and outcomes(tests) == {"test_own.test_own": "passed"}
    listed = tests("--tenon-verify", "http://127.0.0.1:1", "--collect-only")
    assert listed.returncode == 0 and "tenon-verify::choice::none_makes_no_call" in listed.stdout


# ---- the workflow

def read_yaml(text):
    """By PyYAML, which is in an environment of scripts/setup.sh clients."""
    python = pathlib.Path(sys.prefix) / "clients/schemathesis/bin/python"
    assert python.exists(), "schemathesis is not installed: scripts/setup.sh clients"
    program = "import json, sys, yaml; print(json.dumps(yaml.load(sys.stdin, Loader=yaml.BaseLoader)))"
    return json.loads(subprocess.run([python, "-c", program], input=text, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("model, verdict", [("played", 0), ("played+done_missing", 1)])
def test_the_workflow_of_the_page(tests, player, faulty, model, verdict):
    """Its steps run as a runner does it: each in a shell of its own with `-e`, those with `if: always()` also after a failure."""
    [text] = [block for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL) if "jobs:" in block]
    workflow = read_yaml(text)
    assert {"name", "on", "jobs"} <= workflow.keys()
    [job] = workflow["jobs"].values()
    assert job["runs-on"].startswith("ubuntu-") and "timeout-minutes" in job
    steps = {step.get("name", step.get("uses")): step for step in job["steps"]}
    assert all(("run" in step) != ("uses" in step) for step in steps.values())
    [upload] = [step for step in steps.values() if step.get("uses", "").startswith("actions/upload-artifact@v")]
    assert upload["if"] == "always()" and "verify.html" in upload["with"]["path"]

    url = faulty.url if "+" in model else player.url
    (tests.folder / "my-server").write_text("#!/bin/sh\nexit 0\n")  # what it would start is there
    (tests.folder / "my-server").chmod(0o755)
    (tests.folder / "tenon").symlink_to(TENON)
    environment = {**os.environ, "PATH": f"{tests.folder}:{os.environ['PATH']}", **workflow["env"], "SERVER": url}
    ended = {name: subprocess.run(["bash", "-e", "-c", steps[name]["run"].replace("--url", f"--played --model {model} --url")],
                                  cwd=tests.folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
             for name in ("Start the server", "Verify")}
    assert ended["Start the server"].returncode == 0, ended
    assert ended["Verify"].returncode == verdict, ended["Verify"].stdout + ended["Verify"].stderr
    assert "choice/none_makes_no_call" in (tests.folder / "verify.html").read_text()
