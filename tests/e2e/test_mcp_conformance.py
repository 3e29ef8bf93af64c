"""`tenon mcp` as a client, before the protocol's own conformance runner: every scenario that a revision requires of clients."""
import json
import os
import re
import subprocess
import sys

import pytest
from serving import ROOT, TENON

RUNNER = ROOT / "tests" / "e2e" / "clients" / "mcp-conformance"
# How many scenarios each revision requires of a client, so that a runner that leaves some out is noticed.
REQUIRED = {"2025-11-25": 18, "2026-07-28": 32}
# Extensions that the runner runs besides, and that Tenon does not have (docs/mcp.md).
WITHOUT = {"auth/client-credentials-jwt", "auth/enterprise-managed-authorization", "auth/dpop", "auth/dpop-nonce",
           "auth/wif-jwt-bearer"}

pytestmark = [pytest.mark.skipif(not os.environ.get("TENON_LONG"), reason="a heavy client: TENON_LONG"), pytest.mark.serial]


def node():
    found = list((RUNNER / "node_modules").glob("node-linux-*/bin/node"))
    assert found, "the conformance runner is not installed: scripts/setup.sh clients-long"
    return found[0]


@pytest.mark.parametrize("revision", REQUIRED)
def test_the_client_passes_what_a_revision_requires(revision, tmp_path):
    runner = RUNNER / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    command = f"{sys.executable} {RUNNER / 'client.py'}"
    run = subprocess.run([node(), runner, "client", "--requirements", revision, "--timeout", "240000", "--command", command,
                          "--output-dir", tmp_path], env={**os.environ, "TENON_BIN": str(TENON)}, stdin=subprocess.DEVNULL,
                         capture_output=True, text=True, timeout=280)
    summary = run.stdout.partition("=== SUITE SUMMARY ===")[2]
    results = {name: mark for mark, name in re.findall(r"^([✓✗]) (\S+): ", summary.partition("\nTotal:")[0], re.M)}
    failed = {name for name, mark in results.items() if mark == "✗"} - WITHOUT
    assert failed == set(), reasons(tmp_path, failed)
    assert len(set(results) - WITHOUT) >= REQUIRED[revision], summary
    # What is not there must not be said to be missing once it is.
    assert WITHOUT <= {name for name, mark in results.items() if mark == "✗"}, summary


def reasons(folder, failed):
    told = []
    for name in sorted(failed):
        for checks in folder.glob(f"{name}-*/checks.json"):
            told += [f"{name}: {check['id']}: {check.get('errorMessage') or check['description']}"
                     for check in json.loads(checks.read_text()) if check["status"] == "FAILURE"]
            told.append((checks.parent / "stderr.txt").read_text()[-500:])
    return "\n".join(told)
