"""Tenon's models in LlamaIndex, in this process, and tools between the two.

    from tenon.llamaindex import TenonLLM, TenonToolSpec

    llm = TenonLLM(service=tenon.Service.load("model.gguf"))
    agent = FunctionAgent(tools=TenonToolSpec([get_weather]).to_tool_list(), llm=llm)

For a server in another process `OpenAILike` is all that is needed (docs/clients/llama-index.md). Needs `llama-index-core`.
"""

# The framework is not installed where types are checked.
# mypy: disable-error-code="misc,untyped-decorator"
from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
    MessageRole,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.bridge.pydantic import Field
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import BaseTool, FunctionTool, ToolMetadata
from llama_index.core.tools.tool_spec.base import BaseToolSpec
from tenon._schema import runners_of
from tenon._schema import tool as tool_of
from tenon._service import Service
from tenon._toolbox import Toolbox

__all__ = ["TenonLLM", "TenonToolSpec", "toolbox_of"]


class TenonLLM(FunctionCallingLLM):
    """A model of a service. Calls are constrained to their schemas while they are written."""

    service: Any = Field(
        default_factory=Service,
        exclude=True,
        description="A tenon.Service; without one, the bundled model.",
    )
    model: str | None = Field(
        default=None, description="May be absent where the service has one model."
    )
    temperature: float | None = None
    max_tokens: int | None = None
    context_window: int = 4096
    request: dict[str, Any] = Field(
        default_factory=dict, description="What else each request has: top_p, seed, tenon..."
    )

    @classmethod
    def class_name(cls) -> str:
        return "TenonLLM"

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(
            context_window=self.context_window,
            num_output=self.max_tokens or 256,
            is_chat_model=True,
            is_function_calling_model=True,
            model_name=self.model or "tenon",
        )

    def _asked(self, more: dict[str, Any]) -> dict[str, Any]:
        own = {"model": self.model, "temperature": self.temperature, "max_tokens": self.max_tokens}
        return {
            **self.request,
            **{name: value for name, value in own.items() if value is not None},
            **more,
        }

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **more: Any) -> ChatResponse:
        return _response(self.service.chat(_said(messages), **self._asked(more)))

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **more: Any) -> ChatResponse:
        return _response(await self.service.achat(_said(messages), **self._asked(more)))

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **more: Any) -> ChatResponseGen:
        def pieces() -> ChatResponseGen:
            fold = _Fold()
            for chunk in self.service.stream(_said(messages), **self._asked(more)):
                yield fold.add(chunk)

        return pieces()

    @llm_chat_callback()
    async def astream_chat(
        self, messages: Sequence[ChatMessage], **more: Any
    ) -> ChatResponseAsyncGen:
        async def pieces() -> ChatResponseAsyncGen:
            fold = _Fold()
            async for chunk in self.service.astream(_said(messages), **self._asked(more)):
                yield fold.add(chunk)

        return pieces()

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **more: Any) -> CompletionResponse:
        return _completion(self.chat([ChatMessage(role=MessageRole.USER, content=prompt)], **more))

    @llm_completion_callback()
    async def acomplete(
        self, prompt: str, formatted: bool = False, **more: Any
    ) -> CompletionResponse:
        return _completion(
            await self.achat([ChatMessage(role=MessageRole.USER, content=prompt)], **more)
        )

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, formatted: bool = False, **more: Any
    ) -> CompletionResponseGen:
        def pieces() -> CompletionResponseGen:
            for response in self.stream_chat(
                [ChatMessage(role=MessageRole.USER, content=prompt)], **more
            ):
                yield _completion(response)

        return pieces()

    @llm_completion_callback()
    async def astream_complete(
        self, prompt: str, formatted: bool = False, **more: Any
    ) -> CompletionResponseAsyncGen:
        async def pieces() -> CompletionResponseAsyncGen:
            async for response in await self.astream_chat(
                [ChatMessage(role=MessageRole.USER, content=prompt)], **more
            ):
                yield _completion(response)

        return pieces()

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        tool_choice: str | dict[str, Any] | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        messages = list(chat_history or [])
        if user_msg is not None:
            messages.append(
                ChatMessage(role=MessageRole.USER, content=user_msg)
                if isinstance(user_msg, str)
                else user_msg
            )
        if tool_choice is None:
            tool_choice = "required" if tool_required else "auto"
        elif isinstance(tool_choice, str) and tool_choice not in ("auto", "none", "required"):
            tool_choice = {"type": "function", "function": {"name": tool_choice}}
        offered = [_described(each) for each in tools]
        asked = (
            {
                "tools": offered,
                "tool_choice": tool_choice,
                "parallel_tool_calls": allow_parallel_tool_calls,
            }
            if offered
            else {}
        )
        return {"messages": messages, **asked, **more}

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **_: Any
    ) -> list[ToolSelection]:
        selections = []
        for block in response.message.blocks:
            if not isinstance(block, ToolCallBlock):
                continue
            arguments = block.tool_kwargs
            if isinstance(arguments, str):
                try:
                    arguments = json.loads(arguments)
                except ValueError:  # the answer was cut
                    arguments = {}
            selections.append(
                ToolSelection(
                    tool_id=block.tool_call_id or "",
                    tool_name=block.tool_name,
                    tool_kwargs=arguments,
                )
            )
        if not selections and error_on_no_tool_call:
            raise ValueError(f"no tool was called; the answer is {response.message.content!r}")
        return selections


def _described(tool: BaseTool) -> dict[str, Any]:
    described: dict[str, Any] = tool.metadata.to_openai_tool(skip_length_check=True)
    return described


def _said(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    result = []
    for message in messages:
        said: dict[str, Any] = {"role": message.role.value, "content": message.content}
        calls = [
            {
                "id": block.tool_call_id,
                "type": "function",
                "function": {
                    "name": block.tool_name,
                    "arguments": block.tool_kwargs
                    if isinstance(block.tool_kwargs, str)
                    else json.dumps(block.tool_kwargs),
                },
            }
            for block in message.blocks
            if isinstance(block, ToolCallBlock)
        ]
        if calls:
            said["tool_calls"] = calls
        if "tool_call_id" in message.additional_kwargs:
            said["tool_call_id"] = message.additional_kwargs["tool_call_id"]
        result.append(said)
    return result


def _message(content: str, calls: Iterable[dict[str, Any]]) -> ChatMessage:
    blocks: list[Any] = [TextBlock(text=content)] if content else []
    blocks += [
        ToolCallBlock(
            tool_call_id=call["id"],
            tool_name=call["function"]["name"],
            tool_kwargs=call["function"]["arguments"],
        )
        for call in calls
    ]
    return ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks)


def _response(response: dict[str, Any]) -> ChatResponse:
    message = response["choices"][0]["message"]
    said = _message(message.get("content") or "", message.get("tool_calls") or ())
    return ChatResponse(message=said, raw=response, additional_kwargs=response.get("usage") or {})


class _Fold:
    """What has come so far, as each response of a stream has it."""

    def __init__(self) -> None:
        self._content = ""
        self._calls: dict[int, dict[str, Any]] = {}

    def add(self, chunk: dict[str, Any]) -> ChatResponse:
        delta = chunk["choices"][0]["delta"] if chunk["choices"] else {}
        said = delta.get("content") or ""
        self._content += said
        for call in delta.get("tool_calls") or ():
            if "id" in call:
                function = {
                    "name": call["function"]["name"],
                    "arguments": call["function"].get("arguments") or "",
                }
                self._calls[call["index"]] = {"id": call["id"], "function": function}
            else:
                self._calls[call["index"]]["function"]["arguments"] += (
                    call["function"].get("arguments") or ""
                )
        return ChatResponse(
            message=_message(self._content, self._calls.values()), delta=said, raw=chunk
        )


def _completion(response: ChatResponse) -> CompletionResponse:
    return CompletionResponse(
        text=response.message.content or "",
        delta=response.delta,
        raw=response.raw,
        additional_kwargs=response.additional_kwargs,
    )


# ---- Tools ---------------------------------------------------------------------------------------


class TenonToolSpec(BaseToolSpec):
    """Functions as tools of LlamaIndex, with Tenon's schemas; coroutines too."""

    def __init__(self, functions: Iterable[Callable[..., Any]]) -> None:
        self._functions = {
            tool_of(function)["function"]["name"]: function for function in functions
        }
        self.spec_functions = list(self._functions)
        for name, function in self._functions.items():
            setattr(self, name, function)

    def to_tool_list(
        self, spec_functions: Any = None, func_to_metadata_mapping: Any = None
    ) -> list[FunctionTool]:
        given = func_to_metadata_mapping or {}
        return [self._tool(name, given.get(name)) for name in spec_functions or self.spec_functions]

    def _tool(self, name: str, metadata: ToolMetadata | None) -> FunctionTool:
        function = self._functions[name]
        described = tool_of(function)["function"]
        run, arun = runners_of(function)
        if metadata is None:
            metadata = _Metadata(
                description=described.get("description", name), name=name, fn_schema=None
            )
            metadata.parameters = described["parameters"]
        return FunctionTool.from_defaults(fn=run, async_fn=arun, tool_metadata=metadata)


class _Metadata(ToolMetadata):
    """A schema that exists already."""

    parameters: dict[str, Any]

    def get_parameters_dict(self) -> dict[str, Any]:
        return self.parameters


def toolbox_of(tools: Iterable[BaseTool] | BaseToolSpec, **options: Any) -> Toolbox:
    """Tools of LlamaIndex that Tenon runs. `options` are those of a Toolbox."""
    toolbox = Toolbox(**options)
    for each in tools.to_tool_list() if isinstance(tools, BaseToolSpec) else tools:
        described = _described(each)["function"]
        toolbox.add(
            _runner(each),
            name=described["name"],
            description=described.get("description", ""),
            parameters=described["parameters"],
        )
    return toolbox


def _runner(each: BaseTool) -> Callable[..., Any]:
    async def run(**arguments: Any) -> str:
        output = await each.acall(**arguments)
        if output.is_error:
            raise RuntimeError(output.content)
        return str(output.content)

    return run
