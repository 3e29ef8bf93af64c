"""Tenon's models in LangChain, in this process, and tools between the two.

    from tenon.langchain import ChatTenon

    model = ChatTenon(service=tenon.Service.load("model.gguf"))
    model.bind_tools([get_weather]).invoke("Weather in Oslo?").tool_calls
    model.with_structured_output(Film).invoke("A film of 1999?")

For a server in another process `langchain_openai.ChatOpenAI` is all that is needed (docs/clients/langchain.md). Needs `langchain-core`.
"""

# The framework is not installed where types are checked.
# mypy: disable-error-code="misc,untyped-decorator"
from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    convert_to_openai_messages,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda, RunnableMap, RunnablePassthrough
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from pydantic import ConfigDict, Field
from tenon._schema import runners_of
from tenon._schema import tool as tool_of
from tenon._service import Service
from tenon._toolbox import Toolbox

__all__ = ["ChatTenon", "toolbox_of", "tools_of"]


class ChatTenon(BaseChatModel):
    """A model of a service. Calls are constrained to their schemas while they are written, and so is structured output."""

    model_config = ConfigDict(arbitrary_types_allowed=True, populate_by_name=True)

    service: Any = Field(default_factory=Service, exclude=True)
    """A tenon.Service; by default the bundled model."""
    model: str | None = None
    """May be absent if the service has one model."""
    temperature: float | None = None
    max_tokens: int | None = None
    request: dict[str, Any] = Field(default_factory=dict)
    """What else each request has: top_p, seed, tenon..."""

    @property
    def _llm_type(self) -> str:
        return "tenon"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            **self.request,
        }

    def _asked(self, stop: list[str] | None, more: dict[str, Any]) -> dict[str, Any]:
        own = {
            "model": self.model,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "stop": stop,
        }
        return {
            **self.request,
            **{name: value for name, value in own.items() if value is not None},
            **more,
        }

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **more: Any,
    ) -> ChatResult:
        return _result(self.service.chat(_said(messages), **self._asked(stop, more)))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **more: Any,
    ) -> ChatResult:
        return _result(await self.service.achat(_said(messages), **self._asked(stop, more)))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **more: Any,
    ) -> Iterator[ChatGenerationChunk]:
        asked = {**self._asked(stop, more), "stream_options": {"include_usage": True}}
        for chunk in self.service.stream(_said(messages), **asked):
            piece = _piece(chunk)
            if run_manager is not None:
                run_manager.on_llm_new_token(piece.text, chunk=piece)
            yield piece

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **more: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        asked = {**self._asked(stop, more), "stream_options": {"include_usage": True}}
        async for chunk in self.service.astream(_said(messages), **asked):
            piece = _piece(chunk)
            if run_manager is not None:
                await run_manager.on_llm_new_token(piece.text, chunk=piece)
            yield piece

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | dict[str, Any] | bool | None = None,
        **more: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """`tool_choice`: the name of a tool, "auto", "none", "any" or "required" (True), or what a request has."""
        if tool_choice is not None:
            more["tool_choice"] = _choice(tool_choice)
        return super().bind(tools=[convert_to_openai_tool(each) for each in tools], **more)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        include_raw: bool = False,
        method: Literal["json_schema", "function_calling"] = "json_schema",
        **more: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """A pydantic model, a TypedDict or a JSON schema. The answer is held to it while it is written; `method` says whether it is the
        answer's text or a call."""
        described = convert_to_json_schema(schema)
        is_model = isinstance(schema, type) and hasattr(schema, "model_validate")
        bound: Runnable[LanguageModelInput, AIMessage]
        if method == "json_schema":
            name = described.get("title", "answer")
            form = {
                "type": "json_schema",
                "json_schema": {"name": name, "schema": described, "strict": True},
            }
            bound = super().bind(response_format=form, **more)
            parser: Runnable[Any, Any] = (
                PydanticOutputParser(pydantic_object=schema) if is_model else JsonOutputParser()
            )
        elif method == "function_calling":
            bound = self.bind_tools([schema], tool_choice="required", **more)
            make: Any = schema if is_model else dict
            parser = RunnableLambda(lambda message: make(**message.tool_calls[0]["args"]))
        else:
            raise ValueError(f"method is 'json_schema' or 'function_calling', not {method!r}")
        if not include_raw:
            return bound | parser
        parsed = RunnablePassthrough.assign(
            parsed=lambda said: parser.invoke(said["raw"]), parsing_error=lambda _: None
        )
        failed = RunnablePassthrough.assign(parsed=lambda _: None)
        return RunnableMap(raw=bound) | parsed.with_fallbacks(
            [failed], exception_key="parsing_error"
        )


def _choice(choice: str | dict[str, Any] | bool) -> Any:
    if choice is True or choice == "any":
        return "required"
    if choice is False:
        return "none"
    if isinstance(choice, str) and choice not in ("auto", "none", "required"):
        return {"type": "function", "function": {"name": choice}}
    return choice


def _said(messages: list[BaseMessage]) -> list[dict[str, Any]]:
    said = convert_to_openai_messages(messages)
    return said if isinstance(said, list) else [said]


def _usage(usage: dict[str, Any] | None) -> UsageMetadata | None:
    if not usage:
        return None
    return UsageMetadata(
        input_tokens=usage["prompt_tokens"],
        output_tokens=usage["completion_tokens"],
        total_tokens=usage["total_tokens"],
    )


def _more(message: dict[str, Any]) -> dict[str, Any]:
    reasoning = message.get("reasoning_content")
    return {"reasoning_content": reasoning} if reasoning else {}


def _result(response: dict[str, Any]) -> ChatResult:
    choice = response["choices"][0]
    message = choice["message"]
    calls, invalid = [], []
    for call in message.get("tool_calls") or ():
        name, text = call["function"]["name"], call["function"]["arguments"]
        try:
            calls.append(tool_call(name=name, args=json.loads(text), id=call["id"]))
        except ValueError as error:  # the answer was cut
            invalid.append(invalid_tool_call(name=name, args=text, id=call["id"], error=str(error)))
    told = {"finish_reason": choice["finish_reason"], "model_name": response["model"]}
    said = AIMessage(
        content=message.get("content") or "",
        tool_calls=calls,
        invalid_tool_calls=invalid,
        additional_kwargs=_more(message),
        response_metadata=told,
        usage_metadata=_usage(response.get("usage")),
        id=response["id"],
    )
    return ChatResult(
        generations=[
            ChatGeneration(message=said, generation_info={"finish_reason": choice["finish_reason"]})
        ]
    )


def _piece(chunk: dict[str, Any]) -> ChatGenerationChunk:
    choice = chunk["choices"][0] if chunk["choices"] else {"delta": {}}
    delta = choice["delta"]
    calls = [
        tool_call_chunk(
            name=call["function"].get("name"),
            args=call["function"].get("arguments"),
            id=call.get("id"),
            index=call["index"],
        )
        for call in delta.get("tool_calls") or ()
    ]
    told = (
        {"finish_reason": choice["finish_reason"], "model_name": chunk["model"]}
        if choice.get("finish_reason")
        else {}
    )
    message = AIMessageChunk(
        content=delta.get("content") or "",
        tool_call_chunks=calls,
        additional_kwargs=_more(delta),
        response_metadata=told,
        usage_metadata=_usage(chunk.get("usage")),
        id=chunk["id"],
    )
    return ChatGenerationChunk(message=message, generation_info=told or None)


# ---- Tools ---------------------------------------------------------------------------------------


def tools_of(functions: Iterable[Callable[..., Any]]) -> list[BaseTool]:
    """Functions as tools of LangChain, with Tenon's schemas; coroutines too."""
    return [_tool_of(function) for function in functions]


def _tool_of(function: Callable[..., Any]) -> BaseTool:
    described = tool_of(function)["function"]
    run, arun = runners_of(function)
    return StructuredTool(
        name=described["name"],
        description=described.get("description", described["name"]),
        args_schema=described["parameters"],
        func=run,
        coroutine=arun,
    )


def toolbox_of(tools: Iterable[BaseTool], **options: Any) -> Toolbox:
    """Tools of LangChain that Tenon runs. `options` are those of a Toolbox."""
    toolbox = Toolbox(**options)
    for each in tools:
        described = convert_to_openai_tool(each)["function"]
        toolbox.add(
            _runner(each),
            name=described["name"],
            description=described.get("description", ""),
            parameters=described.get("parameters") or {"type": "object"},
        )
    return toolbox


def _runner(each: BaseTool) -> Callable[..., Any]:
    if getattr(each, "func", True) is None:  # It has only a coroutine.

        async def arun(**arguments: Any) -> Any:
            return await each.ainvoke(arguments)

        return arun

    def run(**arguments: Any) -> Any:
        return each.invoke(arguments)

    return run
