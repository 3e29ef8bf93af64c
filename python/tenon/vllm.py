"""Tenon in vLLM: a parser of tool calls for every format, and masks.

    vllm serve MODEL --enable-auto-tool-choice --tool-parser-plugin tenon.vllm --tool-call-parser tenon

`tenon` finds out the format of the model, `tenon_hermes` and the like name one. Importing this registers them. Masks of Tenon's own are
a logits processor, for requests that ask for them:

    vllm serve MODEL --logits-processors tenon.vllm:GrammarLogitsProcessor
    {"model": ..., "messages": ..., "vllm_xargs": {"tenon": "{\\"schema\\": {\\"type\\": \\"object\\"}}"}}

docs/python.md has more. Needs `vllm`.
"""

# The framework is not installed where types are checked.
# mypy: disable-error-code="misc,untyped-decorator,no-any-return"
from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from tenon import _tenon
from tenon._serving import (
    AnswerParser,
    CallDelta,
    apply_words,
    calls_grammar,
    format_of,
    tools_of,
    vocab_of,
)
from vllm.entrypoints.generate.base.protocol import (
    DeltaFunctionCall,
    DeltaMessage,
    DeltaToolCall,
    ExtractedToolCallInformation,
    FunctionCall,
    ToolCall,
)
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.tool_parsers import ToolParserManager
from vllm.tool_parsers.abstract_tool_parser import ToolParser
from vllm.v1.sample.logits_processor import LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

__all__ = ["GrammarLogitsProcessor", "TenonToolParser", "register"]


class TenonToolParser(ToolParser):
    """Calls of any format. `tool_choice` that asks for one, and tools that are `strict`, are held by a grammar in the model's own format,
    which goes to vLLM's structured outputs."""

    format_name: ClassVar[str | None] = None
    """None: the format is detected."""
    supports_required_and_named = False  # They come in the model's own format.
    engine_based_streaming = True  # finish_streaming() is called at the end.

    def __init__(self, tokenizer: Any, tools: list[Any] | None = None) -> None:
        super().__init__(tokenizer, tools)
        self._format = _tenon.Format(self.format_name) if self.format_name else format_of(tokenizer)
        self._answer: AnswerParser | None = None

    def adjust_request(self, request: Any) -> Any:
        if not request.tools or request.tool_choice == "none":
            return request
        request.skip_special_tokens = False  # Markers are control tokens of many models.
        choice = request.tool_choice
        choice = choice if choice is None or isinstance(choice, str) else _named(choice)
        if choice in (None, "auto") and request.extract_structured_outputs() is not None:
            return request  # The answer is constrained by something else already.
        grammar = calls_grammar(
            self._format,
            tools_of(request.tools),
            choice,
            getattr(request, "parallel_tool_calls", None),
        )
        if grammar is None:
            return request
        held = StructuredOutputsParams(grammar=grammar)
        if hasattr(
            request, "_parser_structured_outputs"
        ):  # Responses: what the request said of its text stays to be told.
            request._parser_structured_outputs = held
        else:
            request.structured_outputs, request.response_format = held, None
        return request

    def extract_tool_calls(self, model_output: str, request: Any) -> ExtractedToolCallInformation:
        answer = self._parser(request)
        if answer is None:
            return ExtractedToolCallInformation(
                tools_called=False, tool_calls=[], content=model_output
            )
        content, deltas = answer.feed(model_output)
        rest, more = answer.finish()
        ids = {delta.index: delta.id for delta in deltas + more if delta.id is not None}
        calls = [
            ToolCall(id=ids[index], function=FunctionCall(name=name, arguments=arguments))
            for index, (name, arguments) in enumerate(
                zip(answer.names, answer.arguments, strict=True)
            )
        ]
        return ExtractedToolCallInformation(
            tools_called=bool(calls), tool_calls=calls, content=content + rest or None
        )

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        request: Any,
    ) -> DeltaMessage | None:
        if self._answer is None:
            self._answer = self._parser(request)
            if self._answer is None:
                return DeltaMessage(content=delta_text) if delta_text else None
        return self._delta(*self._answer.feed(delta_text))

    def finish_streaming(self) -> DeltaMessage | None:
        """What was held back since it might have become a marker: vLLM asks for it when the answer is over."""
        answer, self._answer = self._answer, None
        return None if answer is None else self._delta(*answer.finish(), answer)

    def get_remaining_unstreamed_args(self) -> str:
        return ""

    def _parser(self, request: Any) -> AnswerParser | None:
        tools = tools_of(request.tools or self.tools)
        return (
            AnswerParser(self._format, tools) if tools and request.tool_choice != "none" else None
        )

    def _delta(
        self, content: str, deltas: list[CallDelta], answer: AnswerParser | None = None
    ) -> DeltaMessage | None:
        answer = answer or self._answer
        if answer is not None and deltas:  # Other versions of vLLM's server read this.
            self.prev_tool_call_arr = [
                {"name": name, "arguments": arguments}
                for name, arguments in zip(answer.names, answer.arguments, strict=True)
            ]
            self.streamed_args_for_tool = [*answer.arguments]
            self.current_tool_id, self.current_tool_name_sent = len(answer.names) - 1, True
        if not content and not deltas:
            return None
        return DeltaMessage(
            content=content or None,
            tool_calls=[
                DeltaToolCall(
                    index=delta.index,
                    id=delta.id,
                    type="function" if delta.id is not None else None,
                    function=DeltaFunctionCall(name=delta.name, arguments=delta.arguments),
                )
                for delta in deltas
            ],
        )


def _named(choice: Any) -> dict[str, Any]:
    """A named function, as Chat Completions or Responses have it."""
    function = getattr(choice, "function", choice)
    return {"type": "function", "function": {"name": function.name}}


def register(format: str | None = None, name: str | None = None) -> type[TenonToolParser]:
    """Makes `name` a tool parser of vLLM's: by default "tenon", which finds out the format, or "tenon_" and the format's name. A
    definition of one's own is registered before: `tenon.Format.compile(toml).register()`."""
    kind: Any = TenonToolParser
    if format is not None:
        _tenon.Format(format)  # Fails for an unknown format.
        kind = type(
            f"TenonToolParser_{format}",
            (TenonToolParser,),
            {"format_name": format, "__module__": __name__},
        )
    ToolParserManager.register_module(
        name or (f"tenon_{format}" if format else "tenon"), module=kind
    )
    return kind


class GrammarLogitsProcessor(LogitsProcessor):
    """Constrains an answer by Tenon's masks, if the request asks for it in `vllm_xargs` (`extra_args` of SamplingParams): "tenon" is JSON
    text, or a value, that is a request for Grammar (`schema`, or `grammar` and `syntax`) or, with `tools` or `response_format`, for
    Grammar.for_tools(), beside which `format` may name the format. Prompts that open a section of reasoning are seen by the latter.

    For the model runner V1: VLLM_USE_V2_MODEL_RUNNER=0."""

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        from vllm.tokenizers import cached_tokenizer_from_config

        self._tokenizer = cached_tokenizer_from_config(vllm_config.model_config)
        ends = vllm_config.model_config.try_get_generation_config().get("eos_token_id") or []
        self._vocab = vocab_of(self._tokenizer, [ends] if isinstance(ends, int) else ends)
        self._device = device
        self._is_pin_memory = is_pin_memory
        self._rows: dict[int, _Row] = {}

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        request = _asked(sampling_params)
        if request is not None:  # Fails as ValueError, which the server answers with 400.
            _grammar(_bytes(), request, None, "")

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: Any) -> None:
        process_dict_updates(self._rows, batch_update, self._row)

    def _row(
        self, params: SamplingParams, prompt_ids: list[int] | None, output_ids: list[int]
    ) -> _Row | None:
        request = _asked(params)
        if request is None:
            return None
        tail = self._vocab.decode([id for id in (prompt_ids or [])[-64:] if id < len(self._vocab)])
        return _Row(
            _tenon.Matcher(_grammar(self._vocab, request, self._tokenizer, tail)), output_ids
        )

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        if not self._rows:
            return logits
        masks = torch.zeros(
            (len(self._rows), self._vocab.mask_words),
            dtype=torch.int32,
            pin_memory=self._is_pin_memory,
        )
        for at, row in enumerate(self._rows.values()):
            row.fill(masks, at)
        rows = torch.tensor([*self._rows], dtype=torch.long)
        held = logits[rows.to(logits.device)]
        apply_words(held, masks.to(logits.device, non_blocking=True))
        logits[rows.to(logits.device)] = held
        return logits


class _Row:
    """One request's matcher, and the ids of its answer, a list that grows."""

    def __init__(self, matcher: _tenon.Matcher, ids: list[int]) -> None:
        self._matcher, self._ids, self._seen, self._is_free = matcher, ids, 0, False

    def fill(self, masks: torch.Tensor, at: int) -> None:
        while self._seen < len(self._ids) and not self._is_free:
            # An id that the mask did not allow was chosen by another processor, or its answer is over: nothing is held any more.
            self._is_free = self._matcher.is_finished or not self._matcher.accept(
                self._ids[self._seen]
            )
            self._seen += 1
        if self._is_free or self._matcher.is_finished:
            masks[at] = -1
        else:
            self._matcher.fill_mask(masks, at)


def _asked(params: SamplingParams) -> dict[str, Any] | None:
    request = (params.extra_args or {}).get("tenon")
    if isinstance(request, str):
        request = json.loads(request)
    if request is not None and not isinstance(request, dict):
        raise ValueError(f"vllm_xargs: tenon is a JSON object, not {type(request).__name__}")
    return request


def _grammar(
    vocab: _tenon.Vocab, request: dict[str, Any], tokenizer: Any, prompt_tail: str
) -> _tenon.Grammar:
    if "tools" not in request and "response_format" not in request:
        return _tenon.Grammar(vocab, request)
    request = {"prompt_tail": prompt_tail, **request}
    name = request.pop("format", None)
    # Whether the request is valid does not depend on the format.
    format = (
        _tenon.Format(name)
        if name
        else _tenon.Format("hermes")
        if tokenizer is None
        else format_of(tokenizer)
    )
    return _tenon.Grammar.for_tools(vocab, format, request)


def _bytes() -> _tenon.Vocab:
    """A vocabulary of bytes, over which a grammar is made quickly, to check a request."""
    return _tenon.Vocab([*(bytes([byte]) for byte in range(256)), ("<end>", True)], ends=[256])


register()
for _name in _tenon.Format.names():
    register(_name)
