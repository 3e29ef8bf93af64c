"""Tenon in SGLang: a parser of tool calls for every format, and a grammar backend.

    python -m sglang.launch_server --model-path MODEL --tool-call-parser tenon --grammar-backend tenon

Where this package is installed beside SGLang its plugin loader calls register(); a program that starts SGLang itself calls it before.
`tenon` finds out the format of the model, `tenon_hermes` and the like name one. docs/python.md has more. Needs `sglang`.
"""

# The framework is not installed where types are checked.
# mypy: disable-error-code="misc,untyped-decorator,no-any-return"
from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import torch
from sglang.srt.constrained.base_grammar_backend import (
    BaseGrammarBackend,
    BaseGrammarObject,
    InvalidGrammarObject,
    register_grammar_backend,
)
from sglang.srt.function_call.base_format_detector import BaseFormatDetector
from sglang.srt.function_call.core_types import StreamingParseResult, ToolCallItem
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from tenon import _tenon
from tenon._message import parse
from tenon._serving import (
    AnswerParser,
    CallDelta,
    apply_words,
    calls_grammar,
    format_of,
    tools_of,
    vocab_of,
)

__all__ = ["TenonDetector", "TenonGrammar", "TenonGrammarBackend", "register"]


class TenonDetector(BaseFormatDetector):
    """Calls of any format. `tool_choice` that asks for one, and tools that are `strict`, are held by a grammar in the model's own format,
    which goes to the grammar backend."""

    format_name: ClassVar[str | None] = None
    """None: the format is detected."""

    def __init__(self, tokenizer: Any = None) -> None:
        super().__init__()
        if self.format_name is None and tokenizer is None:
            raise ValueError("without a tokenizer the format must be named: tenon_hermes, say")
        self._format = _tenon.Format(self.format_name) if self.format_name else format_of(tokenizer)
        self._answer: AnswerParser | None = None

    def has_tool_call(self, text: str) -> bool:
        """Whether it may have one, or markers that are not content: the tools, which tell bare objects from text, are not known here."""
        if re.search(r'\{\s*"', text):
            return True
        message = parse(text, self._format, parse_reasoning=False)
        return "tool_calls" in message or message["content"] != (text or None)

    def detect_and_parse(self, text: str, tools: list[Any]) -> StreamingParseResult:
        answer = AnswerParser(self._format, tools_of(tools))
        content, _ = answer.feed(text)
        rest, _ = answer.finish()
        indices = self._get_tool_indices(tools)
        calls = [
            ToolCallItem(tool_index=indices.get(name, -1), name=name, parameters=arguments)
            for name, arguments in zip(answer.names, answer.arguments, strict=True)
        ]
        return StreamingParseResult(normal_text=content + rest, calls=calls)

    def parse_streaming_increment(self, new_text: str, tools: list[Any]) -> StreamingParseResult:
        return self._result(*self._parser(tools).feed(new_text))

    def finish(self, tools: list[Any]) -> StreamingParseResult:
        result = self._result(*self._parser(tools).finish())
        self._answer = None
        return result

    def _parser(self, tools: list[Any]) -> AnswerParser:
        if self._answer is None:
            self._answer = AnswerParser(self._format, tools_of(tools))
        return self._answer

    def _result(self, content: str, deltas: list[CallDelta]) -> StreamingParseResult:
        if self._answer is not None and deltas:  # SGLang's server compares the two at the end.
            self.prev_tool_call_arr = [
                {"name": name, "arguments": arguments}
                for name, arguments in zip(self._answer.names, self._answer.arguments, strict=True)
            ]
            self.streamed_args_for_tool = [*self._answer.arguments]
            self.current_tool_id, self.current_tool_name_sent = len(self._answer.names) - 1, True
        return StreamingParseResult(
            normal_text=content,
            calls=[
                ToolCallItem(tool_index=delta.index, name=delta.name, parameters=delta.arguments)
                for delta in deltas
            ],
        )

    def supports_structural_tag(self) -> bool:
        return False  # In the older form, of one schema between two texts.

    def parses_required_natively(self) -> bool:
        return True

    def structure_info(self) -> Any:
        raise NotImplementedError("calls are held by get_structural_tag()")

    def get_structural_tag(
        self,
        tools: Any = None,
        tool_choice: Any = "auto",
        thinking_mode: bool = False,
        parallel_tool_calls: bool = True,
    ) -> Any:
        from xgrammar import StructuralTag
        from xgrammar.structural_tag import GrammarFormat

        choice = tool_choice if isinstance(tool_choice, str) else tool_choice.model_dump()
        grammar = calls_grammar(self._format, tools_of(tools), choice, parallel_tool_calls)
        return None if grammar is None else StructuralTag(format=GrammarFormat(grammar=grammar))


class TenonGrammar(BaseGrammarObject):
    """One constrained answer."""

    def __init__(self, grammar: _tenon.Grammar) -> None:
        super().__init__()
        self._grammar = grammar
        self._matcher = _tenon.Matcher(grammar)

    def accept_token(self, token: int) -> None:
        if self.is_terminated():
            return
        self.current_token = token
        if not self._matcher.accept(token):
            raise ValueError(
                f"the grammar does not allow token {token} behind {self._matcher.accepted_count} others"
            )

    def rollback(self, k: int) -> None:
        self._matcher.rollback(k)

    def is_terminated(self) -> bool:
        return self._matcher.is_finished

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:
        return torch.full(
            (batch_size, (vocab_size + 31) // 32),
            -1,
            dtype=torch.int32,
            pin_memory=torch.cuda.is_available(),
        )

    def fill_vocab_mask(self, vocab_mask: torch.Tensor, idx: int) -> None:
        self._matcher.fill_mask(vocab_mask, idx)

    @staticmethod
    def reset_vocab_mask(vocab_mask: torch.Tensor) -> None:
        vocab_mask.fill_(-1)

    @staticmethod
    def move_vocab_mask(vocab_mask: torch.Tensor, device: Any) -> torch.Tensor:
        return vocab_mask.to(device, non_blocking=True)

    @staticmethod
    def apply_vocab_mask(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
        apply_words(logits, vocab_mask)

    def copy(self) -> TenonGrammar:
        return TenonGrammar(self._grammar)

    def try_jump_forward(self, tokenizer: Any) -> tuple[list[int], str] | None:
        text = self._matcher.forced_bytes().decode("utf-8", "ignore")
        return ([], text) if text else None

    def jump_forward_str_state(self, helper: tuple[list[int], str]) -> tuple[str, int]:
        return helper[1], -1

    def jump_and_retokenize(
        self, old_output_ids: list[int], new_output_ids: list[int], next_state: int
    ) -> None:
        same = 0
        while (
            same < min(len(old_output_ids), len(new_output_ids))
            and old_output_ids[same] == new_output_ids[same]
        ):
            same += 1
        self._matcher.rollback(len(old_output_ids) - same)
        for id in new_output_ids[same:]:
            self.accept_token(id)


class TenonGrammarBackend(BaseGrammarBackend):
    """JSON schemas, regular expressions, EBNF and structural tags by Tenon's masks."""

    def __init__(
        self, tokenizer: Any, eos_token_ids: Iterable[int] | None = None, whitespace: str = "any"
    ) -> None:
        super().__init__()
        self._vocab = vocab_of(tokenizer, eos_token_ids or ())
        self._whitespace = whitespace

    def dispatch_json(self, key_string: str) -> BaseGrammarObject:
        # SGLang's way to ask for any object.
        schema = '{"type": "object"}' if key_string == "$$ANY$$" else key_string
        return self._compiled(
            lambda: {"schema": json.loads(schema), "whitespace": self._whitespace}
        )

    def dispatch_regex(self, key_string: str) -> BaseGrammarObject:
        return self._compiled(lambda: {"grammar": key_string, "syntax": "regex"})

    def dispatch_ebnf(self, key_string: str) -> BaseGrammarObject:
        return self._compiled(lambda: {"grammar": key_string, "syntax": "ebnf"})

    def dispatch_structural_tag(self, key_string: str) -> BaseGrammarObject:
        return self._compiled(lambda: {"grammar": key_string, "syntax": "structural_tag"})

    def _compiled(self, request: Callable[[], dict[str, Any]]) -> BaseGrammarObject:
        try:
            return TenonGrammar(_tenon.Grammar(self._vocab, request()))
        except ValueError as error:
            return InvalidGrammarObject(str(error))


def _backend(
    server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: set[int] | None
) -> BaseGrammarBackend:
    from sglang.srt.runtime_context import get_serving

    serving = get_serving()
    backend = TenonGrammarBackend(
        tokenizer,
        eos_token_ids,
        "compact" if serving.constrained_json_disable_any_whitespace else "any",
    )
    if not serving.reasoning_parser:
        return backend
    # SGLang does this for its own backends alone: a grammar begins where the reasoning ends.
    from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarBackend
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    parser = ReasoningParser(
        model_type=serving.reasoning_parser, stream_reasoning=False, tokenizer=tokenizer
    )
    return ReasonerGrammarBackend(
        backend, parser, tokenizer, enable_strict_thinking=serving.enable_strict_thinking
    )


def register() -> None:
    """Makes "tenon", and "tenon_" with the name of each format, choices of --tool-call-parser, and "tenon" one of --grammar-backend."""
    from sglang.srt.arg_groups.choices import GRAMMAR_BACKEND_CHOICES, add_grammar_backend_choices

    FunctionCallParser.ToolCallParserEnum["tenon"] = TenonDetector
    for name in _tenon.Format.names():
        FunctionCallParser.ToolCallParserEnum[f"tenon_{name}"] = type(
            f"TenonDetector_{name}", (TenonDetector,), {"format_name": name, "__module__": __name__}
        )
    register_grammar_backend("tenon", _backend)
    if "tenon" not in GRAMMAR_BACKEND_CHOICES:
        add_grammar_backend_choices(["tenon"])
