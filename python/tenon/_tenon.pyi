"""The extension module: <tenon.h> in Python. Its names are those of the package `tenon`."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias

from tenon._types import Span

Text: TypeAlias = str | bytes
Json: TypeAlias = Mapping[str, Any] | Sequence[Any] | bool
"""A value that becomes JSON; a str or bytes is JSON already."""
Options: TypeAlias = Json | Text | None
Ids: TypeAlias = Sequence[int] | Any

__version__: str

class ContentDelta:
    """Text of the answer."""

    __match_args__ = ("text",)
    def __init__(self, text: str) -> None: ...
    @property
    def text(self) -> str: ...

class ReasoningDelta:
    """Text of the model's reasoning."""

    __match_args__ = ("text",)
    def __init__(self, text: str) -> None: ...
    @property
    def text(self) -> str: ...

class CallBegin:
    """A call's id and name are known. `index` counts the calls of the answer from 0."""

    __match_args__ = ("index", "id", "name")
    def __init__(self, index: int, id: str, name: str) -> None: ...
    @property
    def index(self) -> int: ...
    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...

class CallArguments:
    """More of the call's arguments: JSON text."""

    __match_args__ = ("index", "text")
    def __init__(self, index: int, text: str) -> None: ...
    @property
    def index(self) -> int: ...
    @property
    def text(self) -> str: ...

class CallEnd:
    """The call is over; `is_incomplete`: the output was cut before its end."""

    __match_args__ = ("index", "is_incomplete")
    def __init__(self, index: int, is_incomplete: bool = False) -> None: ...
    @property
    def index(self) -> int: ...
    @property
    def is_incomplete(self) -> bool: ...

class Diagnostic:
    """Something that a maintainer should know. `code` stays the same from version to version."""

    __match_args__ = ("code", "message")
    def __init__(self, code: str, message: str) -> None: ...
    @property
    def code(self) -> str: ...
    @property
    def message(self) -> str: ...

class Finish:
    """The last event of an answer. `reason`: "stop", "length", "tool_calls", "cancelled", "error"; `details`: "usage" and "tenon"."""

    __match_args__ = ("reason", "details")
    def __init__(self, reason: str, details: dict[str, Any]) -> None: ...
    @property
    def reason(self) -> str: ...
    @property
    def details(self) -> dict[str, Any]: ...

Event: TypeAlias = (
    ContentDelta | ReasoningDelta | CallBegin | CallArguments | CallEnd | Diagnostic | Finish
)

class Vocab:
    """Which bytes each token id stands for; with a tokenizer, texts to ids too. Any number of threads may use one."""

    def __init__(
        self, tokens: Sequence[Text | tuple[Text, bool] | None], ends: Sequence[int]
    ) -> None:
        """From tokens by id: their bytes, a pair with True for a control token, or None for an id without a token.

        `ends` are the ids that end a model's turn. encode() fails: there is no tokenizer.
        """
    @staticmethod
    def load(path: str | PathLike[str]) -> Vocab:
        """From a GGUF file, a tokenizer.json, or a folder that has one of them."""
    @staticmethod
    def parse(tokenizer_json: Json | Text, config: Options = None) -> Vocab:
        """From the text of a tokenizer.json; `config` is a tokenizer_config.json."""
    @staticmethod
    def parse_tiktoken(file: Text, options: Json | Text) -> Vocab:
        """From the text of a tiktoken file; `options`: {"pattern", "special": {text: id}, "bos", "eos", "adds_bos"}."""
    def with_ends(self, ends: Sequence[int]) -> Vocab:
        """The same, with these ids beside those that end a model's turn."""
    def __len__(self) -> int: ...
    def token(self, id: int) -> bytes: ...
    def is_control(self, id: int) -> bool: ...
    @property
    def ends(self) -> list[int]:
        """The ids that end a model's turn."""
    @property
    def bos(self) -> int | None: ...
    def control(self, name: Text) -> int | None:
        """The id of a control token: control("<|im_end|>")."""
    def encode(self, text: Text, controls: bool = False) -> list[int]:
        """`controls`: texts of control tokens become these; leave it False for text from users, tools and schemas."""
    def decode(self, ids: Ids) -> str: ...
    def decode_bytes(self, ids: Ids) -> bytes: ...
    @property
    def mask_words(self) -> int:
        """How many 32-bit words a mask has."""

class Schema:
    """A JSON schema that validates values. Any number of threads may use one."""

    def __init__(self, schema: Json | Text, options: Options = None) -> None:
        """`options`: {"draft", "documents", "assert_format"}."""
    def validate(self, instance: Any) -> list[dict[str, str]]:
        """Every violation: {"instance_path", "schema_path", "message"}."""
    def validate_json(self, text: Text) -> list[dict[str, str]]: ...
    def is_valid(self, instance: Any) -> bool: ...
    def is_valid_json(self, text: Text) -> bool: ...

class Grammar:
    """The texts that an answer may be, over the tokens of a vocabulary. Any number of threads may use one."""

    def __init__(self, vocab: Vocab, request: Json | Text) -> None:
        """{"schema": ...}, or {"grammar": ..., "syntax": "gbnf" | "ebnf" | "lark" | "regex" | "structural_tag"}.

        A vocabulary keeps its latest grammars, so the same request again costs next to nothing.
        """
    @staticmethod
    def for_tools(vocab: Vocab, format: Format | str, request: Json | Text) -> Grammar:
        """What a model may answer that calls tools: {"tools", "tool_choice", "parallel_tool_calls", "response_format", ...}."""
    @property
    def vocab(self) -> Vocab: ...
    @property
    def relaxed(self) -> list[dict[str, str]]:
        """Where the grammar allows more than its schema: {"schema_path", "keyword", "message"}."""

class Matcher:
    """Follows one text, token by token. One thread at a time: another is refused with RuntimeError."""

    def __init__(self, grammar: Grammar) -> None: ...
    def copy(self) -> Matcher:
        """A copy that continues independently."""
    @property
    def grammar(self) -> Grammar: ...
    @property
    def mask_words(self) -> int: ...
    def fill_mask(self, mask: Any, row: int = -1) -> None:
        """Writes the tokens that can come next, without a copy: bit t % 32 of word t // 32 for token t.

        `mask` is an array of int32 or uint32 with Python's buffer protocol (NumPy) or DLPack on the CPU (PyTorch), of one
        dimension or, with a `row`, two. Words beyond the vocabulary become 0. Other threads run meanwhile.
        """
    def fill_draft_masks(self, tokens: Ids, parents: Ids, masks: Any) -> int:
        """Fills a row of `masks` for each node of a tree of guessed tokens: what can come behind it. None is accepted.

        Node 0 is the text so far: its token is not read, and parents[0] is -1. The row of a node whose own token cannot come is
        empty. Returns how many nodes can come.
        """
    def traverse_draft_tree(
        self,
        retrieve_next_token: Ids,
        retrieve_next_sibling: Ids,
        draft_tokens: Ids,
        masks: Any,
    ) -> int:
        """The same for a tree as SGLang and xgrammar write it: each node's first child and next sibling, or -1."""
    def accept(self, token: int) -> bool:
        """False: the token cannot come next, and nothing has changed."""
    def accept_text(self, text: Text) -> bool: ...
    def validate_draft(self, tokens: Ids) -> int:
        """How many of them can come one after the other. Accepts none of them."""
    def rollback(self, count: int) -> None: ...
    def reset(self) -> None: ...
    @property
    def accepted_count(self) -> int: ...
    @property
    def is_accepting(self) -> bool:
        """The text may end here."""
    @property
    def is_complete(self) -> bool:
        """The text must end here."""
    @property
    def is_finished(self) -> bool:
        """An end token has been accepted."""
    def forced_bytes(self, max_bytes: int = 0) -> bytes:
        """The bytes that must come next."""
    def forced_tokens(self, max_tokens: int = 1024) -> list[int]:
        """The same as ids, the first `max_tokens` of them, as the tokenizer writes them; never more than 65,536."""
    def tokens_to_end(self, max_tokens: int = 1024) -> list[int]:
        """A short list of ids after which the text may end; [] if it may end here.

        LimitExceededError where more than `max_tokens`, or 65,536, would be needed, or the search takes too long.
        """

class MaskPool:
    """Fills the masks of a batch in one call. Any number of threads may use one, in turn."""

    def __init__(self, threads: int = 0) -> None:
        """`threads` beside the one that calls. They help batches of several grammars: matchers of one take turns."""
    def fill_masks(self, matchers: Sequence[Matcher], masks: Any, rows: Ids | None = None) -> None:
        """Fills masks[rows[i]], or masks[i], for matchers[i]; `masks` has two dimensions, and is else as for Matcher.fill_mask().

        All rows are filled, even if some fail: those are empty, the first error is raised, and its `failed` is {i: error}.
        """

def print_grammar(
    request: Json | Text, to: Literal["gbnf", "ebnf", "lark", "json-schema"]
) -> tuple[str, list[dict[str, str]]]:
    """The grammar of a request in another engine's language, and what that language cannot express."""

class Format:
    """How a family of models writes tool calls. Any number of threads may use one."""

    def __init__(self, name: Text) -> None:
        """The format with this name or alias; see names()."""
    @staticmethod
    def compile(definition: Text) -> Format:
        """From a definition in TOML (docs/formats.md)."""
    @staticmethod
    def import_template(response_template: Json | Text) -> Format:
        """From the response_template in a tokenizer_config.json."""
    @staticmethod
    def names() -> list[str]: ...
    @staticmethod
    def detect(vocab: Vocab | None = None, **clues: str) -> tuple[Format | None, Any]:
        """The format of a model, and what tells it: by chat_template, bos_token, eos_token, model_name, response_template."""
    def register(self) -> None:
        """Makes it known to Format() and detect()."""
    @property
    def name(self) -> str: ...
    @property
    def info(self) -> dict[str, Any]: ...
    def render_calls(self, calls: Json | Text) -> str:
        """The text that a model writes for `calls`, which are as in "tool_calls" of a message."""
    def describe_tools(self, tools: Json | Text) -> str:
        """A text that describes tools to a model that was not trained for them."""

class StreamParser:
    """Turns a model's output, cut anywhere, into events. One thread at a time."""

    def __init__(
        self, format: Format | str, vocab: Vocab | None = None, options: Options = None
    ) -> None:
        """`options`: {"tools", "fallbacks", "on_unknown_tool", "prompt_tail", "parse_reasoning", "id_prefix"}.

        With a `vocab` markers that are control tokens are known by id alone, without by text.
        """
    def feed(self, text: Text, is_control: bool = False) -> list[Event]:
        """`is_control`: it is the whole text of a control token."""
    def feed_token(self, token: int) -> list[Event]: ...
    def finish(self, is_truncated: bool = False) -> list[Event]:
        """The output has ended, `is_truncated`: by length. Nothing but reset() may follow."""
    def reset(self) -> None: ...

class Mender:
    """Repairs the arguments of one call by their schema while they are written. One thread at a time."""

    def __init__(self, tool: Json | Text, rules: Text = "") -> None: ...
    def feed(self, arguments: Text) -> str: ...
    def finish(self, is_incomplete: bool = False) -> str: ...
    @property
    def repairs(self) -> list[dict[str, str]]: ...

class Prompt:
    """A prompt that a template has made from messages."""

    @property
    def text(self) -> str: ...
    @property
    def spans(self) -> list[Span]: ...
    @property
    def shaping(self) -> list[str]:
        """A sentence for each thing that was rewritten so that the template can render it."""
    def tokenize(self, vocab: Vocab) -> list[int]:
        """The ids. Only control tokens that the template wrote become control tokens."""

class ChatTemplate:
    """A model's chat template. Any number of threads may use one."""

    def __init__(self, source: Text, options: Options = None) -> None:
        """`options`: {"name", "bos_token", "eos_token", "model_name", "format", "generic_fallback", "superset"}."""
    @staticmethod
    def load(path: str | PathLike[str]) -> ChatTemplate:
        """From a GGUF file, a model's folder, its tokenizer_config.json, or a file with a template."""
    @property
    def format(self) -> Format | None:
        """None if models with this template do not call tools."""
    @property
    def capabilities(self) -> dict[str, Any]: ...
    def render(self, messages: Sequence[Mapping[str, Any]], **more: Any) -> Prompt:
        """`more`: tools, add_generation_prompt, shape, now, and any variable of the template."""
    def render_request(self, request: Json | Text) -> Prompt: ...

class Service:
    """The models of a configuration; use `tenon.Service` instead."""

    def __init__(self, config: Text = "", folder: Text = ".") -> None: ...
    @staticmethod
    def _load(path: str | PathLike[str]) -> Service: ...
    def close(self) -> None: ...
    def listen(self, host: Text = "", port: int = -1) -> str: ...
    def stop_listening(self, grace_s: float = 5.0) -> None: ...
    def _add_engine(
        self,
        name: Text,
        start: Callable[[Generation, list[int], dict[str, Any]], None],
        vocab: Vocab,
        chat_template: ChatTemplate | None,
        context_tokens: int,
        max_concurrent: int,
    ) -> None: ...

class Generation:
    """One answer that an engine of the caller makes. One thread at a time."""

    @property
    def matcher(self) -> Matcher | None:
        """Fill its mask before each token; token() accepts the token in it. Valid until end()."""
    def token(self, id: int) -> bool:
        """False if no more is wanted."""
    @property
    def is_cancelled(self) -> bool: ...
    def end(self, reason: Text = "stop", message: Text = "") -> None:
        """The last call: "stop", "length", "cancelled", or "error" with a sentence."""

def _end_callbacks(patience_s: float) -> None: ...

class _Call:
    def __init__(self, service: Service, method: Text, path: Text, body: Text) -> None: ...
    def next(self) -> bytes | None: ...
    def cancel(self) -> None: ...
    def close(self) -> None: ...
    @property
    def status(self) -> int: ...
    @property
    def was_cut(self) -> bool: ...

class _WatchedCall:
    def __init__(self, service: Service, method: Text, path: Text, body: Text) -> None: ...
    def take(self) -> tuple[list[bytes], bool]: ...
    def fileno(self) -> int: ...
    def cancel(self) -> None: ...
    def close(self) -> None: ...
    @property
    def status(self) -> int: ...
    @property
    def was_cut(self) -> bool: ...

class _ToolCall:
    def end(self, result: Text, is_error: bool = False) -> None: ...
    @property
    def is_cancelled(self) -> bool: ...

class _Toolbox:
    def __init__(self, options: Options = None) -> None: ...
    def add(
        self, tool: Json | Text, function: Callable[[_ToolCall, str, dict[str, Any]], None]
    ) -> None: ...
    def add_mcp(self, servers: Json | Text, folder: Text = ".") -> None: ...
    def tools(self) -> list[dict[str, Any]]: ...
    def close(self) -> None: ...

class _Conversation:
    def __init__(self, service: Service, request: Json | Text, saved: Options = None) -> None: ...
    def copy(self) -> _Conversation: ...
    def pending(self) -> list[dict[str, Any]]: ...
    def dismiss(self, why: Text) -> None: ...
    def reset(self) -> None: ...
    def save(self) -> dict[str, Any]: ...
    def close(self) -> None: ...

class _Asking:
    def __init__(
        self,
        conversation: _Conversation,
        is_submit: bool,
        what: Text,
        toolbox: _Toolbox | None,
        limits: Text,
    ) -> None: ...
    def next(self) -> Event | None: ...
    def take(self) -> tuple[list[Event], bool]: ...
    def fileno(self) -> int: ...
    def cancel(self) -> None: ...
    def close(self) -> None: ...
    @property
    def is_over(self) -> bool: ...
    def turn(self) -> dict[str, Any]: ...
