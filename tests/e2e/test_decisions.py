"""Decisions: how likely each option of a question is, in both forms, and against what the model says token by token."""

import json
import math
import re

import pytest
import requests
from serving import ROOT

INPUT = "I was charged twice for my order."
CHOICE = {
    "type": "choice",
    "name": "team",
    "instructions": "Who should answer?",
    "choices": [{"value": "billing"}, {"value": "bill"}, {"value": "technical support"}],
}


def ask(server, body, path="/v1/decisions"):
    answer = requests.post(server.url + path, json={"model": "tenon-tiny", **body}, timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_example_of_the_docs(server):
    [command] = re.findall(
        r"-d '(\{.*?\})'\n```", (ROOT / "docs/decisions.md").read_text(), re.DOTALL
    )
    answers = ask(server, json.loads(command))["answers"]
    assert [(answer["name"], answer["type"]) for answer in answers] == [
        ("refund", "predicate"),
        ("team", "choice"),
        ("anger", "score"),
    ]
    assert 0 <= answers[0]["probability"] <= 1
    for answer in answers[1:]:
        assert math.isclose(
            sum(each["probability"] for each in answer["probabilities"]), 1, rel_tol=1e-9
        )
    best = max(answers[1]["probabilities"], key=lambda each: each["probability"])
    assert answers[1]["choice"] == best["value"]


def spellings(server, text, known):
    """All ways to write `text` in tokens."""
    if not text:
        yield []
    for size in range(1, len(text) + 1):
        part = text[:size]
        if part not in known:
            body = {"model": "tenon-tiny", "content": part}
            known[part] = requests.post(server.url + "/tokenize", json=body, timeout=60).json()[
                "tokens"
            ]
        if len(known[part]) == 1:
            for rest in spellings(server, text[size:], known):
                yield known[part] + rest


def likelihood(server, prompt, tokens):
    """How likely the model writes these tokens and ends its turn: each is forced by its number."""
    body = {
        "model": "tenon-tiny",
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0,
        "logprobs": True,
        "guided_grammar": "start: " + " ".join(f"<[{token}]>" for token in tokens),
        "tenon": {"tokens": True},
    }
    answer = requests.post(server.url + "/v1/chat/completions", json=body, timeout=60).json()
    told = answer["tenon"]["tokens"]
    assert told["token_ids"][:-1] == tokens
    return math.exp(sum(told["logprobs"]))


# Brute force: every text of the question's language, in every way to write it in tokens.
@pytest.mark.parametrize(
    "options",
    [
        ("yes", "no"),
        ("yes", "no", "maybe"),
        ("refund", "ref", "refuse"),
        ("billing", "bill"),
        ("1", "12", "123", "2"),
    ],
    ids="-".join,
)
def test_probabilities_equal_brute_force(server, options):
    instructions = "Should we pay back?"
    question = {
        "type": "choice",
        "instructions": instructions,
        "choices": [{"value": option} for option in options],
    }
    prompt = f"{INPUT}\n\n{instructions}\nAnswer with one of these and nothing else:"
    prompt += "".join(f"\n- {option}" for option in options)
    known = {}
    likely = {}
    for option in options:
        ways = list(spellings(server, option, known))
        assert ways
        likely[option] = sum(likelihood(server, prompt, tokens) for tokens in ways)
    told = ask(server, {"input": INPUT, "questions": [question]})
    mass = told["tenon"]["option_mass"][0]
    # In logarithms, since the options are unlikely and what is computed together changes the last digits.
    assert math.isclose(math.log(mass), math.log(sum(likely.values())), rel_tol=1e-2)
    for each in told["answers"][0]["probabilities"]:
        likelihood_told = math.log(each["probability"] * mass)
        assert math.isclose(likelihood_told, math.log(likely[each["value"]]), rel_tol=1e-2)


def test_both_forms_agree(server):
    one = ask(server, {"input": INPUT, "questions": [CHOICE]})["answers"][0]
    body = {
        "state": INPUT,
        "questions": {
            "team": {
                "type": "choice",
                "instructions": CHOICE["instructions"],
                "criteria": {each["value"]: None for each in CHOICE["choices"]},
            }
        },
    }
    other = ask(server, body, "/v1/systemone")
    assert other["answers"]["team"]["choice"] == one["choice"]
    for each in one["probabilities"]:
        assert math.isclose(
            other["answers"]["team"]["probabilities"][each["value"]],
            each["probability"],
            rel_tol=1e-2,
            abs_tol=1e-6,
        )
    assert other["usage"]["output_tokens"] == 0 < other["usage"]["input_tokens"]


@pytest.mark.parametrize(
    "body,param",
    [
        ({"input": INPUT}, "questions"),
        (
            {
                "input": INPUT,
                "questions": [{**CHOICE, "choices": [{"value": "a"}, {"value": "a"}]}],
            },
            "questions[0]",
        ),
        ({"input": INPUT, "questions": [{**CHOICE, "type": "box"}]}, "questions[0].type"),
    ],
)
def test_errors_name_their_place(server, body, param):
    answer = requests.post(
        server.url + "/v1/decisions", json={"model": "tenon-tiny", **body}, timeout=60
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
