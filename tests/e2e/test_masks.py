"""What masks let through, judged by a validator that is not ours."""
import decimal
import json
import os
import re
import subprocess

import jsonschema
import pytest
from data import LARGE, over_each_set
from serving import ROOT, TENON

IS_LONG = bool(os.environ.get("TENON_LONG"))
# Whole numbers are integers however they are spelled, and numbers are what their digits say.
TYPES = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
    "integer", lambda _, value: not isinstance(value, bool) and (
        isinstance(value, int) or isinstance(value, decimal.Decimal) and value == value.to_integral_value()))
Validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=TYPES)


def exactly(text):
    return json.loads(text, parse_float=decimal.Decimal)


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """Lines of {schema, text, valid}: random schemas, and what masks said of a text."""
    places = [TENON.parent / "grammar_test", ROOT / "build/dev/bin/grammar_test"]
    program = next((place for place in places if place.exists()), None)
    if program is None:
        pytest.skip(f"there is no {places[-1]}: masks cannot be held against jsonschema")
    file = tmp_path_factory.mktemp("masks") / "verdicts.jsonl"
    subprocess.run([program, "--gtest_filter=SchemaProof.*:Vocabularies/MaskProof.*/tiny", "--gtest_brief=1"],
                   env={**os.environ, "TENON_PROOF_TEXTS": str(file)}, check=True)
    return file.read_text().splitlines()


def test_masks_agree_with_jsonschema(verdicts):
    wrong, counts = [], {True: 0, False: 0}
    with decimal.localcontext(decimal.Context(prec=5000)):
        for line in verdicts:
            case = exactly(line)
            if re.search(r"[eE][+-]?\d{4}", case["text"]):
                continue  # Python would write out all its digits
            counts[case["valid"]] += 1
            if Validator(case["schema"]).is_valid(exactly(case["text"])) != case["valid"]:
                wrong.append(line)
    assert not wrong[:5]
    assert min(counts.values()) > 1000


def cases_of(data):
    """Schemas with instances and their verdicts; the standard's own suite has a test of its own."""
    stride = 1 if data != LARGE else 5 if IS_LONG else 50
    for path in sorted((data / "masks" / "public").glob("*.jsonl")):
        if not path.stem.startswith("JSTS"):
            yield from map(json.loads, path.read_text().rstrip("\n").split("\n")[::stride])


@over_each_set
def test_real_instances_are_judged_right(data):
    cases = list(cases_of(data))
    assert len(cases) >= 50
    lines = [json.dumps({"schema": case["schema"], "assert_format": True, "tests": [
        {"text": json.dumps(test["data"], ensure_ascii=False)} for test in case["tests"]]}) for case in cases]
    run = subprocess.run([TENON, "mask", "--batch", "--vocab", ROOT / "models/tenon-tiny.gguf"],
                         input="\n".join(lines), capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    wrong = []
    for case, line in zip(cases, run.stdout.rstrip("\n").split("\n"), strict=True):
        answer = json.loads(line)
        valid = [test["valid"] for test in case["tests"]]
        if answer.get("error", {}).get("code") == "unsatisfiable" and not any(valid):
            continue  # nothing fits it, as is said
        if "error" in answer or [test["accepted"] for test in answer["tests"]] != valid:
            wrong.append((case["id"], answer.get("error") or answer["tests"]))
    assert not wrong
