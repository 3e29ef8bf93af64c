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


# Options of several tokens, of which one begins with another: the probability is that of all tokens up to the turn's end.
def test_probabilities_are_those_of_the_tokens(server):
    [answer] = ask(server, {"input": INPUT, "questions": [CHOICE]})["answers"]
    prompt = (
        INPUT
        + "\n\nWho should answer?\nAnswer with one of these and nothing else:\n- billing\n- bill\n- technical support"
    )
    likely = {}
    for option in ("billing", "bill", "technical support"):
        body = {
            "model": "tenon-tiny",
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "logprobs": True,
            "guided_choice": [option],
            "tenon": {"tokens": True},
        }
        whole = requests.post(server.url + "/v1/chat/completions", json=body, timeout=60).json()
        assert whole["choices"][0]["message"]["content"] == option
        assert len(whole["tenon"]["tokens"]["token_ids"]) == whole["usage"]["completion_tokens"] > 1
        likely[option] = math.exp(sum(whole["tenon"]["tokens"]["logprobs"]))
    total = sum(likely.values())
    for each in answer["probabilities"]:
        assert math.isclose(
            each["probability"], likely[each["value"]] / total, rel_tol=1e-2, abs_tol=1e-6
        )


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
