"""Tenon's models in CrewAI, in this process, and tools between the two.

    from tenon.crewai import TenonLLM, tool

    @tool
    def get_weather(city: str) -> str:
        '''Weather of a city.'''

    agent = Agent(role=..., goal=..., backstory=..., llm=TenonLLM(model="mine", service=service), tools=[get_weather])

For a server in another process `crewai.LLM` is all that is needed (docs/clients/crewai.md). Needs `crewai`.
"""

# The framework is not installed where types are checked.
# mypy: disable-error-code="misc,untyped-decorator"
from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable
from typing import Any

from crewai.events.types.llm_events import LLMCallType
from crewai.llms.base_llm import BaseLLM, llm_call_context
from crewai.tools import BaseTool
from crewai.tools.base_tool import Tool
from pydantic import Field, create_model
from tenon._schema import _hints_of, parse_docstring
from tenon._schema import tool as tool_of
from tenon._service import Service
from tenon._toolbox import Toolbox

__all__ = ["TenonLLM", "tool", "toolbox_of"]


class TenonLLM(BaseLLM):
    """A model of a service. Calls are constrained to their schemas while they are written, and so is structured output."""

    llm_type: str = "tenon"
    provider: str = "tenon"
    service: Any = Field(default_factory=Service, exclude=True)
    """A tenon.Service; by default the bundled model, `tenon-tiny`."""
    context_window: int = 4096

    def supports_function_calling(self) -> bool:
        return True

    def supports_stop_words(self) -> bool:
        return True

    def get_context_window_size(self) -> int:
        return int(self.context_window * 0.85)

    def call(
        self,
        messages: Any,
        tools: list[dict[str, Any]] | None = None,
        callbacks: list[Any] | None = None,
        available_functions: dict[str, Any] | None = None,
        from_task: Any = None,
        from_agent: Any = None,
        response_model: Any = None,
    ) -> Any:
        """The text, the calls as Chat Completions has them, or, with `available_functions`, what the first of them gives."""
        with llm_call_context():
            said = self._begin(messages, tools, from_task, from_agent)
            try:
                response = self._whole(
                    said, self._asked(tools, response_model), from_task, from_agent
                )
            except Exception as error:
                self._emit_call_failed_event(str(error), from_task, from_agent)
                raise
            return self._end(
                response, said, available_functions, from_task, from_agent, response_model
            )

    async def acall(
        self,
        messages: Any,
        tools: list[dict[str, Any]] | None = None,
        callbacks: list[Any] | None = None,
        available_functions: dict[str, Any] | None = None,
        from_task: Any = None,
        from_agent: Any = None,
        response_model: Any = None,
    ) -> Any:
        with llm_call_context():
            said = self._begin(messages, tools, from_task, from_agent)
            try:
                response = await self.service.achat(said, **self._asked(tools, response_model))
            except Exception as error:
                self._emit_call_failed_event(str(error), from_task, from_agent)
                raise
            return self._end(
                response, said, available_functions, from_task, from_agent, response_model
            )

    def _asked(self, tools: list[dict[str, Any]] | None, response_model: Any) -> dict[str, Any]:
        names = (
            "model",
            "temperature",
            "top_p",
            "max_tokens",
            "seed",
            "frequency_penalty",
            "presence_penalty",
        )
        request = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.stop_sequences:
            request["stop"] = self.stop_sequences
        if tools:
            request["tools"] = tools
        if response_model is not None and not tools:
            schema = {
                "name": response_model.__name__,
                "schema": response_model.model_json_schema(),
                "strict": True,
            }
            request["response_format"] = {"type": "json_schema", "json_schema": schema}
        return {**request, **self.additional_params}

    def _begin(
        self, messages: Any, tools: Any, from_task: Any, from_agent: Any
    ) -> list[dict[str, Any]]:
        self._emit_call_started_event(
            messages=messages, tools=tools, from_task=from_task, from_agent=from_agent
        )
        return [dict(message) for message in self._format_messages(messages)]

    def _whole(
        self, said: list[dict[str, Any]], request: dict[str, Any], from_task: Any, from_agent: Any
    ) -> dict[str, Any]:
        if not self._effective_stream:
            response: dict[str, Any] = self.service.chat(said, **request)
            return response
        content = ""
        calls: dict[int, dict[str, Any]] = {}
        last: dict[str, Any] = {}
        for chunk in self.service.stream(said, **request, stream_options={"include_usage": True}):
            last = {**last, **chunk}
            for choice in chunk["choices"]:
                text = choice["delta"].get("content") or ""
                content += text
                if text:
                    self._emit_stream_chunk_event(
                        text,
                        from_task,
                        from_agent,
                        call_type=LLMCallType.LLM_CALL,
                        response_id=chunk["id"],
                    )
                for call in choice["delta"].get("tool_calls") or ():
                    known = calls.setdefault(
                        call["index"],
                        {
                            "id": call.get("id"),
                            "type": "function",
                            "function": {"name": call["function"].get("name"), "arguments": ""},
                        },
                    )
                    known["function"]["arguments"] += call["function"].get("arguments") or ""
        message = {
            "content": content or None,
            "tool_calls": [calls[index] for index in sorted(calls)],
        }
        return {"choices": [{"message": message}], "usage": last.get("usage"), "id": last.get("id")}

    def _end(
        self,
        response: dict[str, Any],
        said: Any,
        available_functions: dict[str, Any] | None,
        from_task: Any,
        from_agent: Any,
        response_model: Any,
    ) -> Any:
        usage = response.get("usage") or {}
        self._track_token_usage_internal(usage)
        message = response["choices"][0]["message"]
        calls = message.get("tool_calls") or []
        kind = LLMCallType.TOOL_CALL if calls else LLMCallType.LLM_CALL
        self._emit_call_completed_event(
            response=calls or message.get("content"),
            call_type=kind,
            from_task=from_task,
            from_agent=from_agent,
            messages=said,
            usage=usage,
            response_id=response.get("id"),
        )
        if calls and available_functions:
            function = calls[0]["function"]
            return self._handle_tool_execution(
                function["name"],
                json.loads(function["arguments"]),
                available_functions,
                from_task,
                from_agent,
            )
        if calls:
            return calls
        return self._validate_structured_output(message.get("content") or "", response_model)


# ---- Tools ---------------------------------------------------------------------------------------


def tool(function: Callable[..., Any]) -> BaseTool:
    """A function as a tool of CrewAI: a decorator. Its description is the docstring's, and so are those of its parameters."""
    described = tool_of(function)["function"]
    told = parse_docstring(inspect.getdoc(function) or "").parameters
    hints = _hints_of(function)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (hints.get(name, Any), Field(default, description=told.get(name)))
    return Tool(
        name=described["name"],
        description=described.get("description", described["name"]),
        func=function,
        args_schema=create_model(described["name"].title(), **fields),
    )


def toolbox_of(tools: Iterable[BaseTool], **options: Any) -> Toolbox:
    """Tools of CrewAI that Tenon runs. `options` are those of a Toolbox."""
    toolbox = Toolbox(**options)
    for each in tools:
        # CrewAI writes name and schema into the description of a tool that it has taken over.
        description = each.description.rsplit("Tool Description: ", 1)[-1]
        toolbox.add(
            _runner(each),
            name="_".join(each.name.split()),
            description=description,
            parameters=each.args_schema.model_json_schema(),
        )
    return toolbox


def _runner(each: BaseTool) -> Callable[..., Any]:
    def run(**arguments: Any) -> Any:
        return each.run(**arguments)

    return run
