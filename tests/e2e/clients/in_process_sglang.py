"""tenon.sglang in SGLang's own classes: detectors as its server makes them, requests of its protocol, its grammar backends."""
import json
import logging
import os
import types
from concurrent.futures import Future

os.environ.setdefault("HF_HUB_OFFLINE", "1")
logging.disable(logging.WARNING)

import torch
import xgrammar
from serving_hooks import ANSWERS, MAIL, WEATHER, Calls, cases, expected, splits, tokenizer
from sglang.srt.arg_groups.choices import GRAMMAR_BACKEND_CHOICES
from sglang.srt.constrained.base_grammar_backend import GRAMMAR_BACKEND_REGISTRY, InvalidGrammarObject
from sglang.srt.entrypoints.openai.protocol import ChatCompletionRequest, Tool, ToolChoice, ToolChoiceFuncName
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.plugins import load_plugins
from sglang.srt.server_args import ServerArgs

import tenon

tokens = tokenizer()
load_plugins()  # As its server does: the package says that it has something to register.
assert {"tenon", *(f"tenon_{name}" for name in tenon.Format.names())} <= set(FunctionCallParser.ToolCallParserEnum)
assert "tenon" in GRAMMAR_BACKEND_CHOICES and "tenon" in GRAMMAR_BACKEND_REGISTRY
import tenon.sglang

tenon.sglang.register()
assert GRAMMAR_BACKEND_CHOICES.count("tenon") == 1

# The command line takes the names.
import argparse

parser = argparse.ArgumentParser()
ServerArgs.add_cli_args(parser)
options = parser.parse_args(["--model-path", "m", "--tool-call-parser", "tenon_hermes", "--grammar-backend", "tenon"])
assert (options.tool_call_parser, options.grammar_backend) == ("tenon_hermes", "tenon")


def tools_of(tools):
    request = ChatCompletionRequest(model="m", messages=[{"role": "user", "content": "q"}], tools=tools)
    assert all(isinstance(each, Tool) for each in request.tools)
    return request.tools


# ---- Whole and streamed: the same as Tenon's own, however it is cut ---------------------------------

count = 0
for name, format, tools, text in cases():
    want, given = expected(format, tools, text), tools_of(tools)
    parser = FunctionCallParser(given, f"tenon_{format}", tokenizer=tokens)
    assert parser.has_tool_call(text) or not want[1], name
    content, calls = parser.parse_non_stream(text)
    assert (content, [(call.name, call.parameters) for call in calls]) == want, (name, content, calls, want)
    assert all(given[call.tool_index].function.name == call.name for call in calls)
    for pieces in splits(name, text):
        parser, sum = FunctionCallParser(given, f"tenon_{format}", tokenizer=tokens), Calls()
        for content, calls in [*(parser.parse_stream_chunk(piece) for piece in pieces), parser.parse_stream_end()]:
            sum.content += content
            for call in calls:
                sum.add(call.tool_index, call.name, call.parameters)
        assert sum.result == want, (name, pieces, sum.result, want)
        # What the server sends behind the last piece: nothing.
        detector = parser.detector
        assert [call["arguments"] for call in detector.prev_tool_call_arr] == detector.streamed_args_for_tool
    count += 1
print(f"{count} answers")
assert not FunctionCallParser(tools_of([WEATHER]), "tenon_hermes").has_tool_call("It is <b>cloudy</b>, {a}.")

# The format is found out by the tokenizer's template; where nothing tells it, that is said.
text = ANSWERS["call"][1]
tokens.chat_template = "{% for tool in tools %}<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>{% endfor %}"
assert FunctionCallParser(tools_of([WEATHER]), "tenon", tokenizer=tokens).parse_non_stream(text)[1]
tokens.chat_template = None
for more in ({"tokenizer": tokens}, {}):
    try:
        FunctionCallParser(tools_of([WEATHER]), "tenon", **more)
        raise AssertionError("a format was found")
    except ValueError as error:
        assert "hermes" in str(error)

# ---- Calls that must come are held in the model's own format: by its backend and by Tenon's ---------------

info = xgrammar.TokenizerInfo([bytes([byte]) for byte in range(256)] + [b"</s>"], stop_token_ids=[256])
backend = tenon.sglang.TenonGrammarBackend(tokens)
vocab = tenon.Vocab.load(os.path.join(os.path.dirname(tenon.__file__), "models", "tenon-tiny.gguf"))


def compiled(kind, text, backend=backend):
    """As its grammar manager asks."""
    value, is_hit = backend.get_cached_or_future_value((kind, text), False)
    if isinstance(value, Future):
        value = value.result()
        backend.set_cache((kind, text), value.copy() if not isinstance(value, InvalidGrammarObject) else value)
    return value


strict = json.loads(json.dumps(WEATHER))
strict["function"]["strict"] = True
named = ToolChoice(function=ToolChoiceFuncName(name="get_weather"))
for format in ("hermes", "qwen3_coder", "llama3_json", "kimi_k2"):
    # Where a bare object is a call no grammar can be printed of answers that may be text.
    is_bare = format == "llama3_json"
    for tools, choice, is_held in (([WEATHER], "auto", False), ([WEATHER], "required", True), ([strict], "auto", not is_bare), ([WEATHER, MAIL], named, True)):
        parser = FunctionCallParser(tools_of(tools), f"tenon_{format}", tokenizer=tokens)
        assert parser.owns_tool_format()
        constraint = parser.get_structure_constraint(choice, parallel_tool_calls=True)
        assert (constraint is not None) == is_held, (format, choice, constraint)
        if not is_held:
            continue
        kind, tag = constraint
        request = ChatCompletionRequest(model="m", messages=[{"role": "user", "content": "q"}], tools=tools)
        sampling = request.to_sampling_params([], {}, constraint)
        assert kind == "structural_tag"
        matcher = xgrammar.GrammarMatcher(xgrammar.GrammarCompiler(info).compile_structural_tag(sampling["structural_tag"]))
        call = [{"type": "function", "id": "functions.get_weather:0", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}]
        written = tenon.Format(format).render_calls(call)
        assert matcher.accept_string(written), (format, written)
        matcher.reset()
        assert choice == "auto" or not matcher.accept_string("Well, ")
        grammar = compiled("structural_tag", sampling["structural_tag"])
        for token in vocab.encode(written):
            grammar.accept_token(token)

# ---- The backend ---------------------------------------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}, "days": {"type": "integer", "maximum": 99}},
          "required": ["city", "days"], "additionalProperties": False}
SIZE = len(vocab) + 40  # Models' rows are padded.
end = vocab.control("<|im_end|>")
for kind, text, value in (("json", json.dumps(SCHEMA), '{"city": "Oslo", "days": 2}'), ("json", "$$ANY$$", '{"a": [1]}'), ("regex", "[a-c]+x", "abcx"),
                          ("ebnf", 'root ::= "yes" | "no"', "yes"), ("structural_tag", json.dumps({
                              "type": "structural_tag", "structures": [{"begin": "<a>", "schema": SCHEMA, "end": "</a>"}], "triggers": ["<a>"]}),
                              'x <a>{"city": "Oslo", "days": 2}</a>')):
    template, again = compiled(kind, text), compiled(kind, text)
    assert template is not again and type(again) is tenon.sglang.TenonGrammar, template
    mask = again.allocate_vocab_mask(SIZE, 3, "cpu")
    assert mask.shape == (3, (SIZE + 31) // 32)
    ids = [*vocab.encode(value), end]
    for token in ids:
        again.reset_vocab_mask(mask)
        again.fill_vocab_mask_batched([types.SimpleNamespace(row=1, grammar=again)], mask)
        logits = torch.zeros(3, SIZE)
        again.apply_vocab_mask(logits, again.move_vocab_mask(mask, "cpu"))
        assert bool((logits[[0, 2]] == 0).all()) and logits[1, token] == 0 and bool((logits[1, len(vocab):] == float("-inf")).all())
        assert not again.is_terminated()
        again.accept_token(token)
    assert again.is_terminated()
    again.accept_token(5)  # What follows is thrown away.
    again.rollback(2)
    assert not again.is_terminated()
    for token in ids[-2:]:
        again.accept_token(token)
    assert again.is_terminated() and not template.is_terminated()

grammar = compiled("ebnf", 'root ::= "yes" | "no"')
try:
    grammar.accept_token(vocab.encode("maybe")[0])
    raise AssertionError("taken")
except ValueError as error:
    assert "does not allow" in str(error)
grammar = compiled("ebnf", 'root ::= "The answer is " ("yes" | "no")')
ids, text = grammar.try_jump_forward(tokens)
assert grammar.jump_forward_str_state((ids, text)) == ("The answer is ", -1)
grammar.jump_and_retokenize([], vocab.encode(text), -1)
grammar.accept_token(vocab.encode("yes")[0])
for kind, text in (("json", '{"type": "banana"}'), ("json", "{"), ("regex", "("), ("ebnf", "root ::= x"), ("structural_tag", "{}")):
    refused = compiled(kind, text)
    assert isinstance(refused, InvalidGrammarObject) and refused.error_message, (kind, text, refused)

# Random logits under it are of the schema.
torch.manual_seed(1)
grammar, written = compiled("json", json.dumps(SCHEMA)), []
while not grammar.is_terminated() and len(written) < 400:
    mask = grammar.allocate_vocab_mask(SIZE, 1, "cpu")
    grammar.fill_vocab_mask(mask, 0)
    logits = torch.randn(1, SIZE)
    grammar.apply_vocab_mask(logits, mask)
    written.append(int(torch.argmax(logits[0])))
    grammar.accept_token(written[-1])
assert not tenon.validate(json.loads(vocab.decode(written[:-1])), SCHEMA)
print("ok")
