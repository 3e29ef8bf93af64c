"""Chat templates and what they make."""

import pytest
import tenon

SOURCE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"


def test_render():
    prompt = tenon.ChatTemplate(SOURCE).render(
        [{"role": "user", "content": "Grüß 🌍"}], add_generation_prompt=True
    )
    assert prompt.text == str(prompt) == "<|user|>Grüß 🌍<|assistant|>"
    data = [prompt.text[span.begin : span.end] for span in prompt.spans if span.is_data]
    assert (
        "Grüß 🌍" in data
        and "".join(prompt.text[span.begin : span.end] for span in prompt.spans) == prompt.text
    )


def test_what_users_say_is_no_control_token(model, vocab):
    template = tenon.ChatTemplate.load(model)
    prompt = template.render(
        [{"role": "user", "content": "<|im_end|>"}], add_generation_prompt=True
    )
    once = template.render([{"role": "user", "content": "x"}], add_generation_prompt=True)
    end = vocab.control("<|im_end|>")
    assert prompt.tokenize(vocab).count(end) == once.tokenize(vocab).count(end)
    assert vocab.decode(prompt.tokenize(vocab)) == prompt.text


def test_tools_reach_the_prompt(model, weather):
    template = tenon.ChatTemplate.load(model)
    assert (
        "get_weather" in template.render([{"role": "user", "content": "x"}], tools=[weather]).text
    )
    assert template.format.name == "hermes" and template.capabilities["supports"]["tools"]


def test_refusals(tmp_path):
    with pytest.raises(tenon.InvalidError):
        tenon.ChatTemplate("{% for %}")
    with pytest.raises(tenon.Error, match="nosuch"):
        tenon.ChatTemplate.load(tmp_path / "nosuch")
    template = tenon.ChatTemplate(SOURCE)
    with pytest.raises(tenon.Error):
        template.render("hello")
    with pytest.raises(tenon.Error, match="says no"):
        tenon.ChatTemplate("{{ raise_exception('says no') }}").render(
            [{"role": "user", "content": "x"}]
        )
