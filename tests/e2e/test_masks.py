"""What masks let through, judged by a validator that is not ours."""
import decimal
import json
import os
import re
import subprocess

import jsonschema
import pytest
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
        for line in verdicts if IS_LONG else verdicts[::8]:
            case = exactly(line)
            if re.search(r"[eE][+-]?\d{4}", case["text"]):
                continue  # Python would write out all its digits
            counts[case["valid"]] += 1
            if Validator(case["schema"]).is_valid(exactly(case["text"])) != case["valid"]:
                wrong.append(line)
    assert not wrong[:5]
    assert min(counts.values()) > 1000
