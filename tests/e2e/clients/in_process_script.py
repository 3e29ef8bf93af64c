"""Models in this process that play a script, for the checks of the frameworks' adapters."""
import json
import pathlib

import tenon

MODEL = pathlib.Path(tenon.__file__).parent / "models" / "tenon-tiny.gguf"


def call(name, arguments):
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


def scripted(answer):
    """A service whose model `script` says what `answer(prompt)` says."""
    vocab = tenon.Vocab.load(MODEL)

    def generate(prompt, request, matcher):
        yield from vocab.encode(answer(vocab.decode(prompt)), controls=True)
        yield vocab.control("<|im_end|>")

    service = tenon.Service(f'[[model]]\nname = "tenon-tiny"\npath = "{MODEL}"\nclose_calls = true\n')  # no limit cuts a call
    service.add_engine("script", generate, vocab, tenon.ChatTemplate.load(MODEL), context_tokens=16384)
    return service


def weather(prompt):
    """Asks for the weather of Oslo, and says what it hears."""
    if "<tool_response>" not in prompt:
        return call("get_weather", {"city": "Oslo"})
    return "It is cloudy." if "cloudy" in prompt.split("<tool_response>")[1] else "Nobody knows."
