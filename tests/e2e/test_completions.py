"""OpenAI's Completions, as there were before chat, through the SDK people use."""
import json

import openai
import pytest
import requests
from scripted_upstream import serving_script
from tools import endless, settled

ASK = {"model": "tenon-tiny", "prompt": "<|im_start|>user\nWhat is the weather in Paris?<|im_end|>\n<|im_start|>assistant\n",
       "max_tokens": 24, "temperature": 0}


def folded(chunks):
    """What the chunks of a stream add up to: choices as the whole answer has them."""
    choices, usage = {}, None
    for chunk in chunks:
        assert chunk.object == "text_completion"
        usage = chunk.usage or usage
        for piece in chunk.choices:
            choice = choices.setdefault(piece.index, {"text": "", "finish_reason": None, "logprobs": None})
            choice["text"] += piece.text
            choice["finish_reason"] = piece.finish_reason or choice["finish_reason"]
            if piece.logprobs:
                more = piece.logprobs.model_dump()
                before = choice["logprobs"] or {key: [] for key in more}
                choice["logprobs"] = {key: before[key] + more[key] for key in more}
    return [choices[index] for index in sorted(choices)], usage


def choices_of(answer):
    return [{"text": choice.text, "finish_reason": choice.finish_reason,
             "logprobs": choice.logprobs and choice.logprobs.model_dump()} for choice in answer.choices]


ROWS = {
    "text": {},
    "default_length": {"max_tokens": openai.omit},
    # Nothing is drawn: what else is in a batch changes the last bits of logits, and so now and then a draw.
    "several": {"prompt": ["Once upon", "The sky is"], "n": 2, "max_tokens": 6},
    "drawn": {"seed": 3, "temperature": 1, "max_tokens": 6},
    "logprobs": {"logprobs": 3},
    "only_the_chosen_logprobs": {"logprobs": 0},
    "stop": {"stop": ["e", "Paris"]},
    "echo": {"prompt": ["Once upon", "The"], "echo": True},
    "json": {"extra_body": {"response_format": {"type": "json_object"}}, "max_tokens": 64},
    "from_nothing": {"prompt": None},
}


@pytest.mark.parametrize("more", ROWS.values(), ids=ROWS)
def test_a_stream_adds_up_to_the_whole(client, more):
    asked = {**ASK, **more}
    whole = settled(lambda: client.completions.create(**asked))
    assert whole.object == "text_completion" and whole.id.startswith("cmpl-")
    assert len(whole.choices) == asked.get("n", 1) * (len(asked["prompt"]) if isinstance(asked["prompt"], list) else 1)
    choices, usage = folded(client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    assert choices == choices_of(whole)
    assert (usage.prompt_tokens, usage.completion_tokens) == (whole.usage.prompt_tokens, whole.usage.completion_tokens)


def test_fields_do_what_they_say(client, server):
    ask = {**ASK, "logit_bias": endless(server)}
    text = settled(lambda: client.completions.create(**ask).choices[0].text)
    tokens = requests.post(server.url + "/tokenize", json={"content": ASK["prompt"], "parse_special": True}, timeout=30)
    by_ids = client.completions.create(**{**ask, "prompt": tokens.json()["tokens"]})
    assert by_ids.choices[0].text == text and by_ids.usage.prompt_tokens == tokens.json()["count"]
    assert client.completions.create(**ask, echo=True).choices[0].text == ASK["prompt"] + text
    assert client.completions.create(**{**ask, "max_tokens": openai.omit}).usage.completion_tokens == 16
    stopped = client.completions.create(**ask, stop=text[3:6]).choices[0]
    assert stopped.finish_reason == "stop" and stopped.text == text[:text.index(text[3:6])]
    best = client.completions.create(**{**ask, "temperature": 1}, best_of=4, n=2, seed=1, logprobs=0)
    means = [sum(choice.logprobs.token_logprobs) / len(choice.logprobs.tokens) for choice in best.choices]
    assert len(means) == 2 and means[0] >= means[1]
    held = client.completions.create(**{**ASK, "max_tokens": 200}, extra_body={"response_format": {
        "type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "array", "items": {"enum": [1, 2, 3]},
                                                                        "maxItems": 3}}}})
    assert len(json.loads(held.choices[0].text)) <= 3 and held.tenon["guarantee"] == "masked"


def test_logprobs_stand_where_their_tokens_do(client):
    choice = client.completions.create(**ASK, logprobs=2).choices[0]
    logprobs = choice.logprobs
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.top_logprobs) == len(logprobs.text_offset)
    for token, logprob, top, offset in zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs,
                                           logprobs.text_offset):
        assert top[token] == logprob and 2 <= len(top) <= 3
        assert choice.text[offset:].startswith(token) or offset == len(choice.text)


def test_logit_bias_forbids_a_token(client, server):
    """The token comes from the two that may come."""
    ask = {**ASK, "max_tokens": 1, "extra_body": {"response_format": {
        "type": "json_schema", "json_schema": {"name": "n", "schema": {"enum": [1, 2]}}}}}
    text = client.completions.create(**ask).choices[0].text
    (token,) = requests.post(server.url + "/tokenize", json={"content": text}, timeout=30).json()["tokens"]
    other = client.completions.create(**ask, logit_bias={str(token): -100}).choices[0].text
    assert {text, other} == {"1", "2"}


@pytest.mark.parametrize("more, param", [
    ({"suffix": "the end"}, "suffix"), ({"echo": True, "logprobs": 1}, "echo"), ({"best_of": 1, "n": 2}, "best_of"),
    ({"prompt": [10**9]}, "prompt"), ({"max_tokens": 0}, "max_tokens"), ({"prompt": "a " * 60000}, "prompt")],
    ids=lambda value: value if isinstance(value, str) else "")
def test_refusals_name_the_field(client, more, param):
    with pytest.raises(openai.BadRequestError) as raised:
        client.completions.create(**{**ASK, **more})
    assert raised.value.param == param


def test_over_a_llama_server(tmp_path):
    with serving_script(tmp_path, lambda prompt: prompt[::-1]) as (server, upstream):
        far = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=60)
        asked = {"model": "scripted", "prompt": ["<|im_start|>abc", "de"], "max_tokens": 99}
        whole = far.completions.create(**asked)
        assert [choice.text for choice in whole.choices] == ["cba>|trats_mi|<", "ed"]
        assert sorted(upstream.prompts) == ["<|im_start|>abc", "de"] and whole.usage.prompt_tokens == 17
        assert folded(far.completions.create(**asked, stream=True))[0] == choices_of(whole)
        assert far.completions.create(model="scripted", prompt=[97, 98], echo=True).choices[0].text == "abba"
        with pytest.raises(openai.BadRequestError) as raised:
            far.completions.create(**asked, suffix="x")
        assert raised.value.param == "suffix"
