"""tenon.vllm in vLLM's own classes: parsers as its server composes them, requests of its protocol, its batches."""
import json
import logging
import os
import pathlib
import random
import tempfile
import types

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import vllm.utils.torch_utils
from serving_hooks import ANSWERS, MAIL, ROOT, WEATHER, Calls, cases, expected, splits, tokenizer
from vllm.config import ModelConfig
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
from vllm.exceptions import VLLMValidationError
from vllm.parser.parser_manager import ParserManager
from vllm.sampling_params import SamplingParams
from vllm.tool_parsers import ToolParserManager
from vllm.v1.sample.logits_processor import BatchUpdate, MoveDirectionality, build_logitsprocs, validate_logits_processors_parameters
from vllm.v1.structured_output.backend_xgrammar import validate_xgrammar_grammar

import tenon

logging.disable(logging.WARNING)
tokens = tokenizer()


def asked(tools, **more):
    return ChatCompletionRequest(model="m", messages=[{"role": "user", "content": "q"}], tools=tools, **more)


# As `--tool-parser-plugin tenon.vllm` does.
ToolParserManager.import_tool_parser("tenon.vllm")
assert {"tenon", *(f"tenon_{name}" for name in tenon.Format.names())} <= set(ToolParserManager.list_registered())
kinds = {name: ParserManager.get_parser(tool_parser_name=f"tenon_{name}", enable_auto_tools=True) for name in tenon.Format.names()}

# ---- Whole and streamed: the same as Tenon's own, however it is cut ---------------------------------

count = 0
for name, format, tools, text in cases():
    want = expected(format, tools, text)
    request = asked(tools)
    kind = kinds[format]
    reasoning, content, calls = kind(tokens, request.tools).parse(text, request, enable_auto_tools=True)
    got = content or "", [(call.name, call.arguments) for call in calls or []]
    # The server drops content that is only white space beside calls.
    assert got == want or (got[1] == want[1] and want[1] and not want[0].strip() and not got[0]), (name, got, want)
    assert reasoning is None and len({call.id for call in calls or []}) == len(calls or [])
    for pieces in splits(name, text):
        parser, sum = kind(tokens, request.tools), Calls()
        for at, piece in enumerate(pieces):
            delta = parser.parse_delta(piece, [1], request, prompt_token_ids=[1], finished=at == len(pieces) - 1)
            if delta is None:
                continue
            sum.content += delta.content or ""
            for call in delta.tool_calls or []:
                sum.add(call.index, call.function.name, call.function.arguments, call.id)
        assert sum.result == want, (name, pieces, sum.result, want)
        assert all(sum.ids), (name, sum.ids)
    count += 1
print(f"{count} answers")

# Ids that the format has are the call's; without tools, and with none to be called, an answer is text.
text = ANSWERS["ids"][1]
[call] = ToolParserManager.get_tool_parser("tenon_kimi_k2")(tokens).extract_tool_calls(text, asked([WEATHER])).tool_calls
assert call.id == "functions.get_weather:0"
format, text = ANSWERS["call"]
for request in (asked(None), asked([WEATHER], tool_choice="none")):
    said = ToolParserManager.get_tool_parser("tenon_hermes")(tokens, request.tools).extract_tool_calls(text, request)
    assert not said.tools_called and said.content == text
    delta = kinds["hermes"](tokens, request.tools).parse_delta(text, [1], request, prompt_token_ids=[1], finished=True)
    assert delta.content == text and not delta.tool_calls

# The format is found out by the tokenizer's template; where nothing tells it, that is said.
tokens.chat_template = tenon.Format("hermes") and "{% for tool in tools %}<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>{% endfor %}"
assert ToolParserManager.get_tool_parser("tenon")(tokens).extract_tool_calls(text, asked([WEATHER])).tools_called
tokens.chat_template = None
try:
    ToolParserManager.get_tool_parser("tenon")(tokens)
    raise AssertionError("a format was found")
except ValueError as error:
    assert "hermes" in str(error)

# ---- Calls that must come are held in the model's own format -----------------------------------------

strict = json.loads(json.dumps(WEATHER))
strict["function"]["strict"] = True
for format in ("hermes", "qwen3_coder", "llama3_json", "kimi_k2"):
    # Where a bare object is a call no grammar can be printed of answers that may be text.
    is_bare = format == "llama3_json"
    for tools, more, is_held in (([WEATHER], {}, False), ([WEATHER], {"tool_choice": "required"}, True), ([strict], {}, not is_bare),
                                 ([WEATHER, MAIL], {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}}, True),
                                 ([strict], {"tool_choice": "none"}, False)):
        request = asked(tools, **more)
        adjusted = kinds[format](tokens, request.tools).adjust_request(request)
        held = adjusted.structured_outputs
        assert (held is not None) == is_held, (format, more, held)
        assert (adjusted.skip_special_tokens is False) == (more.get("tool_choice") != "none")
        if not is_held:
            continue
        validate_xgrammar_grammar(SamplingParams(structured_outputs=held))
        import xgrammar
        info = xgrammar.TokenizerInfo([bytes([byte]) for byte in range(256)] + [b"</s>"], stop_token_ids=[256])
        matcher = xgrammar.GrammarMatcher(xgrammar.GrammarCompiler(info).compile_grammar(held.grammar))
        call = [{"type": "function", "id": "functions.get_weather:0", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}]
        written = tenon.Format(format).render_calls(call)
        assert matcher.accept_string(written), (format, written, held.grammar)
        matcher.reset()
        if more:
            assert not matcher.accept_string("Well, "), format
# What asks for a call overrides another form of the answer; an answer that may be text keeps it. Responses the same.
form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
request = kinds["hermes"](tokens, []).adjust_request(asked([WEATHER], tool_choice="required", response_format=form))
assert request.extract_structured_outputs().grammar and request.response_format is None
request = kinds["hermes"](tokens, []).adjust_request(asked([strict], response_format=form))
assert request.structured_outputs is None and request.response_format is not None
flat = {"type": "function", **WEATHER["function"], "strict": None}
for choice, is_held in (("auto", False), ("required", True), ({"type": "function", "name": "get_weather"}, True)):
    request = ResponsesRequest(model="m", input="q", tools=[flat, {"type": "web_search"}], tool_choice=choice)
    parser = kinds["hermes"](tokens, request.tools)
    held = parser.adjust_request(request).extract_structured_outputs()
    assert bool(held and held.grammar) == is_held, (choice, held)
    _, content, [call] = parser.parse(ANSWERS["call"][1], request, enable_auto_tools=True)
    assert (content, call.name, call.arguments) == (None, "get_weather", '{"city": "Oslo", "days": 2}')
# A schema that nothing can hold is refused, and not left alone.
try:
    kinds["hermes"](tokens, []).adjust_request(asked([{"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {"a": False}, "required": ["a"]}}}], tool_choice="required"))
    raise AssertionError("taken")
except ValueError:
    pass

# ---- Masks in its batches ------------------------------------------------------------------------

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "tokenizer.json").write_text((ROOT / "training" / "state" / "tokenizer.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}))
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 2,
        "num_hidden_layers": 1, "vocab_size": 5440, "max_position_embeddings": 512}))
    config = types.SimpleNamespace(model_config=ModelConfig(model=name, tokenizer=name), speculative_config=None,
                                   scheduler_config=types.SimpleNamespace(max_num_seqs=8))
    vllm.utils.torch_utils.PIN_MEMORY = torch.cuda.is_available()
    names = ("tenon.vllm:GrammarLogitsProcessor",)
    own = build_logitsprocs(config, torch.device("cpu"), False, False, names).all
    [processor] = [each for each in own if type(each).__name__ == "GrammarLogitsProcessor"]

SCHEMA = {"schema": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}, "days": {"type": "integer", "maximum": 99}},
                     "required": ["city", "days"], "additionalProperties": False}}
CALLS = {"tools": [WEATHER], "tool_choice": "required", "format": "hermes"}
vocab = tenon.Vocab.load(pathlib.Path(tenon.__file__).parent / "models" / "tenon-tiny.gguf")
assert vocab.control("<|im_end|>") in vocab.ends and processor._vocab.ends == vocab.ends, (processor._vocab.ends, vocab.ends)


def params(request):
    return SamplingParams(extra_args={"tenon": json.dumps(request)} if request else None)


def is_over(row):
    return bool(outputs[row]) and outputs[row][-1] in vocab.ends


def update(size, removed=(), added=(), moved=()):
    return BatchUpdate(batch_size=size, removed=removed, added=added, moved=moved)


# Rows 0 and 2 are held, 1 is not: each gets the mask of a matcher of its own, and 1 keeps what it has.
outputs = [[], [], []]
processor.update_state(update(3, added=[(0, params(SCHEMA), [1], outputs[0]), (1, params(None), [1], outputs[1]), (2, params(CALLS), [1], outputs[2])]))
chance = random.Random(1)
script = [*vocab.encode('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}\n</tool_call>', controls=True), vocab.ends[0]]
torch.manual_seed(1)
for _ in range(400):
    logits = torch.randn(3, 5440)
    free = logits[1].clone()
    got = processor.apply(logits)
    assert torch.equal(got[1], free) and got.dtype == torch.float32
    assert bool((got[[0, 2], len(vocab):] == float("-inf")).all()), "tokens beyond the vocabulary"
    for row in (0, 2):
        if not is_over(row):
            outputs[row].append(int(torch.argmax(got[row])) if row == 0 else script[len(outputs[row])])
            assert got[row, outputs[row][-1]] != float("-inf")
        else:  # What comes behind the end is thrown away, and something must be possible.
            assert bool((got[row][:len(vocab)] != float("-inf")).all())
    outputs[1].append(chance.randrange(100))
    if is_over(0) and is_over(2):
        break
value = json.loads(vocab.decode(outputs[0][:-1]))
assert not tenon.validate(value, SCHEMA["schema"]), value
assert outputs[2] == script

# Rows that move, leave and come back with what they had written.
matcher = tenon.Matcher(tenon.Grammar(vocab, SCHEMA))
written = outputs[0][:3]
assert all(matcher.accept(id) for id in written)
processor.update_state(update(2, removed=[1], added=[(0, params(SCHEMA), [1], written)], moved=[(2, 1, MoveDirectionality.UNIDIRECTIONAL)]))
processor.update_state(update(2, moved=[(0, 1, MoveDirectionality.SWAP)]))
got = processor.apply(torch.zeros(2, 5440))
mask = torch.zeros(vocab.mask_words, dtype=torch.int32)
matcher.fill_mask(mask)
allowed = [id for id in range(len(vocab)) if mask[id // 32].item() >> (id % 32) & 1]
assert torch.nonzero(got[1] == 0).flatten().tolist() == allowed and 0 < len(allowed) < len(vocab)
processor.update_state(update(0, removed=[0, 1]))
assert processor.apply(logits) is logits

# What a request asks for is looked at before it is let in.
validate_logits_processors_parameters(names, params(SCHEMA))
validate_logits_processors_parameters(names, params(CALLS))
validate_logits_processors_parameters(names, params({"response_format": {"type": "json_schema", "json_schema": {"name": "x", **SCHEMA}}}))
for wrong in ('{"schema": {"type": "banana"}}', "[1]", "{", '{"grammar": "root ::= x", "syntax": "ebnf"}', '{"tools": [], "format": "nosuch"}'):
    try:
        validate_logits_processors_parameters(names, SamplingParams(extra_args={"tenon": wrong}))
        raise AssertionError(f"{wrong} was let in")
    except VLLMValidationError:
        pass
print("ok")
