"""`tenon verify` as a plugin of pytest: each check of a server is a test.

    pytest --tenon-verify http://127.0.0.1:8000 --tenon-verify-group choice

pytest finds it where this package is installed. Without `--tenon-verify` it does nothing. It runs the command `tenon`, which is
asked once, before the first test, for all checks that are selected. A check that fails is a test that fails; one that the server
does not support, or that its model would not do, is skipped with the reason. docs/verify.md has more.
"""

# pytest is not installed where types are checked.
# mypy: disable-error-code="misc,untyped-decorator,no-any-return"
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

__all__ = ["VerifyCheck", "VerifyFailure"]

NAME = "tenon-verify"  # of the node in which all checks are
LONGEST_SHOWN = 2000  # characters of what was sent and what came, in the message of a failure

# Options of pytest that `tenon verify` has, too: name, how often, help.
PASSED_ON = (
    ("model", "the model's name; default: the server's first"),
    ("dialect", "which API: chat, responses or messages; default: chat"),
    ("api-key-env", "the environment variable with the API key; default: TENON_API_KEY"),
    ("tries", "how often a model is asked that would not do it"),
    ("timeout", "limit of an answer, in seconds"),
    ("max-tokens", "limit of an answer, in tokens"),
    ("html", "everything that was sent and came, as a page into this file"),
)


def dest_of(name: str) -> str:
    return "tenon_verify_" + name.replace("-", "_")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup(NAME, "checks of a server that calls tools (tenon verify)")
    group.addoption("--tenon-verify", metavar="URL", help="the server: http://host:port")
    for name, about in PASSED_ON:
        group.addoption(f"--tenon-verify-{name}", metavar=name.upper(), help=about)
    group.addoption("--tenon-verify-json", metavar="FILE", help="the report as JSON into this file")
    group.addoption(
        "--tenon-verify-group",
        metavar="NAME",
        action="append",
        default=[],
        help="only this group, or this check (group/check); may come several times",
    )
    group.addoption(
        "--tenon-verify-played",
        action="store_true",
        help="the server's engine does what the questions say",
    )
    group.addoption(
        "--tenon-verify-command",
        metavar="PATH",
        help="the command `tenon`; default: TENON_BIN, or the one on the PATH",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "tenon_verify: a check of the server of --tenon-verify")
    url = config.getoption("tenon_verify")
    if url is not None and not url.strip():  # a variable of a CI that is not set
        raise pytest.UsageError("--tenon-verify is empty; it needs the server: http://host:port")
    if url is not None:
        config.pluginmanager.register(Plugin(config), NAME + "-run")


class VerifyFailure(Exception):
    """A check that failed. `result` is its part of the report."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__(result["why"])
        self.result = result


class Ended(Exception):
    """The run ended before a check, or did not begin."""


class VerifyGroup(pytest.Collector):
    """The node of all checks, and below it one for each group."""

    nodes: list[pytest.Item | pytest.Collector]

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        return self.nodes


class VerifyCheck(pytest.Item):
    """One check; its marks are pytest's own, so that a conftest may add `xfail` to it."""

    def __init__(self, *, check: str, about: str, plugin: Plugin, **more: Any) -> None:
        super().__init__(**more)
        self.check, self.about, self.plugin = check, about, plugin
        self.add_marker("tenon_verify")

    def runtest(self) -> None:
        result = self.plugin.result_of(self.check)
        self.user_properties.append(("ms", result["ms"]))
        if result["verdict"] == "fail":
            raise VerifyFailure(result)
        if result["verdict"] != "pass":
            pytest.skip(f"{self.check}: {result['verdict']}: {result['why']}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, VerifyFailure):
            return message_of(self.about, excinfo.value.result)
        if isinstance(excinfo.value, Ended):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[pathlib.Path, int | None, str]:
        return self.path, None, self.check


def message_of(about: str, result: dict[str, Any]) -> str:
    """The reason first: pytest shows the first line in its summary."""
    lines = [result["why"], f"The check: {about}"]
    for exchange in result["exchanges"]:
        lines += [
            f"{exchange['method']} {exchange['path']}: status {exchange['status']}, {exchange['ms']} ms",
            "sent: " + shortened(exchange["sent"]),
            "came: " + shortened(exchange["came"]),
        ]
    return "\n".join(lines)


def shortened(text: str) -> str:
    left = len(text) - LONGEST_SHOWN
    if left <= 0:
        return text
    return f"{text[:LONGEST_SHOWN]} ... and {left} characters; --tenon-verify-html FILE has them"


class Plugin:
    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.command = self.find_command()
        self.results: dict[str, dict[str, Any]] = {}
        self.ended = "it was not asked"  # why a check has no result
        self.missing: list[str] = []  # the selected checks without a result
        self.complaint: str | None = None  # of a run that has such checks
        # pytest-xdist: a folder that the processes of a run share. Mistakes of the command line are found before they start.
        self.shared: dict[str, Any] = getattr(config, "workerinput", {})
        self.folder: str | None = self.shared.get(dest_of("folder"))
        self.listed = self.shared.get(dest_of("listed")) or self.list_checks()
        self.check_files()

    def find_command(self) -> str:
        named = self.config.getoption("tenon_verify_command") or os.environ.get("TENON_BIN")
        found = shutil.which(named or "tenon")
        if found is None:
            raise pytest.UsageError(
                f"--tenon-verify needs the command `tenon`: {named or 'it'} is not "
                f"{'a program' if named else 'on the PATH'}; --tenon-verify-command says where it is"
            )
        return found

    def check_files(self) -> None:
        for name in ("json", "html"):
            path = self.option(name)
            if path is None:
                continue
            if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path) or "."):
                raise pytest.UsageError(
                    f"--tenon-verify-{name} {path}: a file in a folder that exists is needed"
                )

    def option(self, name: str) -> Any:
        return self.config.getoption(dest_of(name))

    def arguments(self, names: list[str]) -> list[str]:
        return [
            part
            for name in names
            if self.option(name) is not None
            for part in (f"--{name}", str(self.option(name)))
        ]

    # ---- which checks there are

    @pytest.hookimpl(hookwrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        """The checks are collected as files are, so that pytest counts them."""
        outcome: Any = yield
        if isinstance(collector, pytest.Session):
            report = outcome.get_result()
            if report.passed:
                report.result.append(self.all_checks(collector))

    def all_checks(self, session: pytest.Session) -> VerifyGroup:
        top: VerifyGroup = VerifyGroup.from_parent(session, name=NAME, nodeid=NAME)
        groups: dict[str, VerifyGroup] = {}
        for line in self.listed.splitlines():
            check, about = line.split(": ", 1)
            group, name = check.split("/", 1)
            if group not in groups:
                groups[group] = VerifyGroup.from_parent(top, name=group)
                groups[group].nodes = []
            groups[group].nodes.append(
                VerifyCheck.from_parent(
                    groups[group], name=name, check=check, about=about, plugin=self
                )
            )
        top.nodes = [*groups.values()]
        return top

    def list_checks(self) -> str:
        groups = [f"--group={name}" for name in self.option("group")]
        listed = subprocess.run(
            [self.command, "verify", "--list", *self.arguments(["dialect"]), *groups],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if listed.returncode != 0:
            raise pytest.UsageError(listed.stderr.strip())
        return listed.stdout

    # ---- asking

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Asks before the first test: then no limit of a test's time holds for the whole run, and its progress is shown."""
        checks = [item.check for item in session.items if isinstance(item, VerifyCheck)]
        is_broken = session.testsfailed and not self.config.getoption(
            "continue_on_collection_errors"
        )
        is_shown = self.config.getoption("collectonly") or self.config.getoption("setuponly")
        if not checks or is_broken or is_shown:
            return
        with contextlib.ExitStack() as stack:
            folder = self.folder or stack.enter_context(tempfile.TemporaryDirectory())
            lock = stack.enter_context(open(os.path.join(folder, "lock"), "w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
            report, words = pathlib.Path(folder, "report.json"), pathlib.Path(folder, "words.txt")
            if not words.exists():
                words.write_text(self.ask(checks, report))
            self.read(report, words.read_text())
        self.missing = [check for check in checks if check not in self.results]
        if self.missing:
            self.complaint = (
                f"{len(self.missing)} of {len(checks)} checks have no result: {self.ended}"
            )

    def ask(self, checks: list[str], report: pathlib.Path) -> str:
        """Returns the last that the command says: what it complains of where there is no report."""
        command = [self.command, "verify", "--url", self.config.getoption("tenon_verify")]
        command += self.arguments([name for name, _ in PASSED_ON])
        command += ["--played"] if self.option("played") else []
        command += [f"--group={check}" for check in checks]
        words = ""
        with subprocess.Popen(
            [*command, "--json", str(report)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            for words in process.stderr:
                print(words, end="", file=sys.stderr, flush=True)
        if report.exists() and self.option("json"):
            shutil.copyfile(report, self.option("json"))
        return words.strip()

    def read(self, report: pathlib.Path, words: str) -> None:
        try:
            document = json.loads(report.read_text())
        except (OSError, json.JSONDecodeError):
            self.ended = words or "tenon verify wrote no report"
            return
        results = document["results"]
        self.ended = f"the server answered no more after {len(results)} of {document['of']} checks"
        self.results = {f"{result['group']}/{result['check']}": result for result in results}

    def result_of(self, check: str) -> dict[str, Any]:
        """Where the run ended early, the first check without a result fails, as often as it is run, and the others are skipped."""
        if check in self.results:
            return self.results[check]
        if check in self.missing[1:]:
            pytest.skip(f"{check}: not asked")
        raise Ended(f"not asked: {self.ended}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Also where the check that fails is marked `xfail`: a server that was not asked is no success."""
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput[dest_of("complaint")] = self.complaint
        elif self.complaint and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.complaint:
            terminalreporter.write_line(f"tenon verify: {self.complaint}", red=True)

    # ---- pytest-xdist: the processes of a run share one report

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        if self.folder is None:
            self.folder = tempfile.mkdtemp(prefix="tenon-verify-")
        node.workerinput[dest_of("folder")] = self.folder
        node.workerinput[dest_of("listed")] = self.listed

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        told = getattr(node, "workeroutput", None) or {}
        self.complaint = self.complaint or told.get(dest_of("complaint"))

    def pytest_unconfigure(self) -> None:
        if self.folder is not None and not hasattr(self.config, "workerinput"):
            shutil.rmtree(self.folder, ignore_errors=True)
