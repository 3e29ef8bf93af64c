"""Recursive models (docs/rlm.md) behind the API of a chat completion that keeps its state.

    api = RLMToolCallingAPI(model="gpt-5-nano", recursive_model="gpt-5")
    response = api.chat_completion(messages=[{"role": "system", "content": massive_context},
                                             {"role": "user", "content": "Find information about X"}], tools=tools)

The context is never part of a prompt: the model looks at it with code in a sandbox. Calls of `tools` come back as in any chat
completion, and the next request brings their results. It runs in this process, or on a server that runs Tenon (`base_url`).
"""

from __future__ import annotations

import contextlib
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tenon._errors import ApiError, UnavailableError
from tenon._json import dumps

if TYPE_CHECKING:
    from tenon._service import Service

__all__ = [
    "Arguments",
    "ChatClient",
    "RLM_REPL",
    "RLMToolCallingAPI",
    "create_rlm_client",
    "extract_response_content",
    "format_tool_calls_for_messages",
]

Message = Mapping[str, Any]


class Arguments(str):
    """The arguments of a call: the JSON text that they are in messages, which may be indexed as the object that it says.

    call["function"]["arguments"]["query"]
    """

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self.loads()[key]
        return super().__getitem__(key)

    def loads(self) -> Any:
        return json.loads(self)

    def get(self, key: str, default: Any = None) -> Any:
        return self.loads().get(key, default)

    def keys(self) -> Any:
        return self.loads().keys()

    def items(self) -> Any:
        return self.loads().items()


class _Server:
    """A server in another process."""

    def __init__(self, base_url: str, api_key: str | None, timeout_s: float) -> None:
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._headers = {"content-type": "application/json"}
        if api_key:
            self._headers["authorization"] = f"Bearer {api_key}"
        self._timeout_s = timeout_s

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._opened(request) as answer:
            result: dict[str, Any] = json.load(answer)
            return result

    def stream(self, request: dict[str, Any]) -> Generator[dict[str, Any], None, None]:
        with self._opened({**request, "stream": True}) as answer:
            for line in answer:
                data = line.strip().removeprefix(b"data:").strip()
                if not line.startswith(b"data:") or data == b"[DONE]":
                    continue
                chunk = json.loads(data)
                if "error" in chunk:
                    raise ApiError(answer.status, chunk["error"])
                yield chunk

    def check(self, model: str) -> None:
        """A server may be started later, so the first question tells of a model that it does not have."""

    def _opened(self, request: dict[str, Any]) -> Any:
        body = urllib.request.Request(self._url, dumps(request).encode(), self._headers)
        try:
            return urllib.request.urlopen(body, timeout=self._timeout_s)
        except urllib.error.HTTPError as error:
            raise ApiError(error.code, _error_of(error.read())) from error
        except urllib.error.URLError as error:
            raise UnavailableError(f"{self._url}: {error.reason}") from error

    def close(self) -> None:
        pass


def _error_of(body: bytes) -> dict[str, Any]:
    try:
        error = json.loads(body)["error"]
        return error if isinstance(error, dict) else {"message": str(error)}
    except (ValueError, KeyError, TypeError):
        return {"message": body.decode(errors="replace")}


class _Here:
    """Models in this process."""

    def __init__(self, service: Service, is_ours: bool) -> None:
        self._service = service
        self._is_ours = is_ours

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self._service.request("POST", "/v1/chat/completions", request)
        return answer

    def check(self, model: str) -> None:
        """Raises ApiError where there is no model of this name."""
        if "?" in model:
            return  # a path ends there: the first question tells
        try:
            self._service.request("GET", "/v1/models/" + model)
        except BaseException:
            self.close()
            raise

    def stream(self, request: dict[str, Any]) -> Generator[dict[str, Any], None, None]:
        messages = request.pop("messages")
        return self._service.stream(messages, **request)

    def close(self) -> None:
        if self._is_ours:
            self._service.close()


def _configuration(models: Sequence[str], api_key: str | None) -> str:
    """A file that ends in .gguf is a model of this machine; other names belong to the API that OPENAI_BASE_URL names."""
    url = (
        os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
        .rstrip("/")
        .removesuffix("/v1")
    )
    text = ""
    for name in dict.fromkeys(models):
        text += f"[[model]]\nname = {json.dumps(name)}\n"
        if name.endswith(".gguf"):
            text += f"path = {json.dumps(os.path.abspath(name))}\n"
        else:
            text += (
                f'engine = "openai"\nurl = {json.dumps(url)}\nupstream_model = {json.dumps(name)}\n'
            )
            if api_key or "OPENAI_API_KEY" in os.environ:
                text += 'api_key_env = "OPENAI_API_KEY"\n'
    return text


# The limits of a run: their kind, and the least and the most that a request may ask for (docs/rlm.md). A configuration may allow
# less, which the first request tells.
_LIMITS: dict[str, tuple[type, float, float]] = {
    "max_iterations": (int, 1, 100),
    "max_depth": (int, 1, 4),
    "max_sub_calls": (int, 0, 10_000),
    "max_concurrent": (int, 1, 64),
    "max_tokens": (int, 1, 1_000_000_000),
    "max_errors": (int, 1, 1_000_000_000),
    "max_output_chars": (int, 1, 200_000),
    "max_time": (float, 0.001, 86_400),
    "cell_timeout": (float, 0.001, 600),
    "max_cost": (float, 1e-9, 1_000_000_000),
    "compact_at": (float, 0, 1),
}
_EVENTS = ("none", "reasoning", "json")


def _check_options(options: Mapping[str, Any]) -> None:
    """Raises TypeError where an option does not exist or has the wrong type, and ValueError where it is out of its bounds."""
    for name, value in options.items():
        if name == "events" and (value is None or value in _EVENTS):
            continue
        if name == "events":
            raise ValueError(f"events must be one of {', '.join(_EVENTS)}, not {value!r}")
        if name not in _LIMITS:
            raise TypeError(
                f"there is no argument {name!r}: limits are {', '.join(_LIMITS)}, and there is events"
            )
        if value is None:
            continue
        kind, least, most = _LIMITS[name]
        fits = isinstance(value, int) or (kind is float and isinstance(value, float))
        if isinstance(value, bool) or not fits:
            what = "an int" if kind is int else "a number"
            raise TypeError(f"{name} must be {what}, not {value!r}")
        if not least <= value <= most:
            raise ValueError(f"{name} must be from {least} to {most}, not {value!r}")


def _check_models(models: Sequence[Any]) -> None:
    for name in models:
        if not isinstance(name, str):
            raise TypeError(f"the name of a model must be a str, not {name!r}")
        if not name:
            raise ValueError("the name of a model is empty")


def _check_time(timeout_s: Any) -> None:
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)):
        raise TypeError(f"timeout_s must be a number, not {timeout_s!r}")
    if not timeout_s > 0:
        raise ValueError(f"timeout_s must be above 0, not {timeout_s!r}")


def _transport(
    models: Sequence[str],
    config: str | os.PathLike[str] | Service | None,
    base_url: str | None,
    api_key: str | None,
    timeout_s: float,
) -> _Server | _Here:
    _check_models(models)
    _check_time(timeout_s)
    if base_url is not None:
        if config is not None:
            raise ValueError("config and base_url exclude each other: models are here or there")
        if not base_url.startswith(("http://", "https://")):
            raise ValueError(f"base_url must begin with http:// or https://, not {base_url!r}")
        return _Server(base_url, api_key or os.environ.get("OPENAI_API_KEY"), timeout_s)
    from tenon._service import Service

    if isinstance(config, Service):
        return _Here(config, False)
    if config is not None:
        is_text = isinstance(config, str) and "\n" in config
        return _Here(Service(str(config)) if is_text else Service.load(config), True)
    if api_key:
        os.environ.setdefault(
            "OPENAI_API_KEY", api_key
        )  # The configuration names a variable, never a key.
    return _Here(Service(_configuration(models, api_key)), True)


def _told(
    chunks: Iterator[dict[str, Any]], on_event: Callable[[dict[str, Any]], object]
) -> dict[str, Any]:
    """The whole answer of a stream. Its reasoning is a line of JSON for each event, which `on_event` gets at once."""
    whole: dict[str, Any] = {}
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: list[dict[str, Any]] = []
    finish, line = None, ""
    for chunk in chunks:
        whole.update({key: value for key, value in chunk.items() if value is not None})
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta", {})
            line += delta.get("reasoning_content") or ""
            while "\n" in line:
                event, _, line = line.partition("\n")
                on_event(json.loads(event))
            if delta.get("content") is not None:
                message["content"] = (message["content"] or "") + delta["content"]
            for part in delta.get("tool_calls") or ():
                if part["index"] == len(calls):
                    calls.append({**part, "function": {"arguments": "", **part["function"]}})
                    del calls[-1]["index"]
                else:
                    calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]
            finish = choice.get("finish_reason") or finish
    if calls:
        message["tool_calls"] = calls
    whole["object"] = "chat.completion"
    whole["choices"] = [{"index": 0, "message": message, "finish_reason": finish}]
    return whole


class RLMToolCallingAPI:
    """One conversation with a recursive model: `model` leads, `recursive_model` is asked about parts.

    `config` is a Service, a tenon.toml (path or text) that has both, or nothing: then names that end in .gguf are files, and others
    are asked for at OPENAI_BASE_URL with OPENAI_API_KEY. `base_url` is that of a server that runs Tenon and has both.

    `on_event` is called with each event of a run while it happens: a dict whose `type` is "iteration", "cells", "sub_call" or another
    one of docs/rlm.md. What it raises ends the run.

    `options` are limits of a run, as docs/rlm.md has them (max_iterations, max_depth, max_time...), sent with each request.

    Raises TypeError or ValueError where an argument is wrong, and ApiError where this process has no such model. What a server or the
    limits of a configuration refuse is told by the first request.
    """

    def __init__(
        self,
        model: str = "gpt-5",
        recursive_model: str = "gpt-5",
        *,
        config: str | os.PathLike[str] | Service | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        enable_logging: bool = False,
        timeout_s: float = 3600.0,
        on_event: Callable[[dict[str, Any]], object] | None = None,
        **options: Any,
    ) -> None:
        self.model = model
        self.recursive_model = recursive_model
        self._on_event = on_event
        if "depth" in options:
            options["max_depth"] = options.pop("depth")
        _check_options(options)
        if on_event is not None and not callable(on_event):
            raise TypeError(f"on_event must be callable, not {on_event!r}")
        self._options = options
        self._enable_logging = enable_logging
        self._models = _transport((model, recursive_model), config, base_url, api_key, timeout_s)
        self._models.check(f"{model}:{recursive_model}")
        self.session_state: dict[str, Any] | None = None
        self.current_context: list[Message] | None = None
        self.current_query: Any = None
        self.current_tools: list[dict[str, Any]] | None = None

    def chat_completion(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        **request: Any,
    ) -> dict[str, Any]:
        """The response, as Chat Completions has it; arguments of calls are `Arguments`.

        `messages` are all of them each time. A session that waits for results is known by the ids of its calls; `tools` that are left
        out then are those of before. `request`: temperature, max_completion_tokens and what else a request has.
        """
        is_continued = self._has_tool_results(messages)
        if tools is not None or not is_continued:
            self.current_tools = None if tools is None else [dict(tool) for tool in tools]
        if not is_continued:
            self.current_context = self._extract_context(messages)
            self.current_query = messages[-1]["content"] if messages else None
        limits = {**self._options, **request.pop("rlm", {})}
        if self._enable_logging:
            limits.setdefault("events", "reasoning")
        body = {
            "model": f"{self.model}:{self.recursive_model}",
            "messages": list(messages),
            **request,
        }
        if self.current_tools:
            body["tools"] = self.current_tools
        if limits:
            body["rlm"] = limits
        if self._on_event is None:
            response = self._models.ask(body)
        else:
            body["rlm"] = {**limits, "events": "json"}
            body.setdefault("stream_options", {"include_usage": True})
            # Closed here, since an exception of on_event may keep the stream, and with it the run, for as long as it is kept itself.
            with contextlib.closing(self._models.stream(body)) as chunks:
                response = _told(chunks, self._on_event)
        self._keep(response)
        return response

    def _keep(self, response: dict[str, Any]) -> None:
        choice = response["choices"][0]
        message = choice["message"]
        for call in message.get("tool_calls") or ():
            call["function"]["arguments"] = Arguments(call["function"]["arguments"])
        told = response.get("tenon", {}).get("rlm", {})
        if choice["finish_reason"] == "tool_calls":
            self.session_state = {
                "type": "tool_calls",
                "tool_calls": message["tool_calls"],
                "content": message.get("content"),
                "state": "paused",
                "iteration": told.get("iterations"),
                "session": told.get("session"),
            }
        else:
            self.session_state = {
                "type": "final_answer",
                "content": message.get("content"),
                "state": "complete",
                "iteration": told.get("iterations"),
                "session": told.get("session"),
            }
        response["model"] = self.model

    def get_session_state(self) -> dict[str, Any]:
        """Where the session is: `state` ("paused", "complete", or None before the first question) and what was asked."""
        state = self.session_state or {}
        return {
            "state": state.get("state"),
            "session_state": self.session_state,
            "has_context": bool(self.current_context),
            "current_query": self.current_query,
            "has_tools": bool(self.current_tools),
        }

    def reset(self) -> None:
        """Forgets the session. The server drops what it has of the session by itself."""
        self.session_state = None
        self.current_context = None
        self.current_query = None
        self.current_tools = None

    def close(self) -> None:
        self._models.close()

    def __enter__(self) -> RLMToolCallingAPI:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The document's helpers.

    def _extract_context(self, messages: Sequence[Message]) -> list[Message]:
        """What Tenon takes as the context: system and developer messages, else all before the last question."""
        context = [message for message in messages if message["role"] in ("system", "developer")]
        return context or list(messages[:-1])

    def _has_tool_results(self, messages: Sequence[Message]) -> bool:
        """There are results behind the last message of the user: results further up belong to questions that were answered."""
        for message in reversed(messages):
            if message.get("role") == "user":
                return False
            if message.get("role") == "tool":
                return True
        return False

    def _extract_tool_results(self, messages: Sequence[Message]) -> list[Message]:
        """The results behind the last message of an assistant."""
        results: list[Message] = []
        for message in reversed(messages):
            if message.get("role") == "assistant":
                break
            if message.get("role") == "tool":
                results.insert(0, message)
        return results


def _loaded(context: Any) -> Any:
    """The value of a context: files are read, JSON files as what they say, several files as a dict from name to text."""
    if isinstance(context, os.PathLike):
        path = os.fspath(context)
        if os.path.isdir(path):
            found = sorted(
                os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names
            )
            return {os.path.relpath(name, path): _text_of(name) for name in found}
        return json.loads(_text_of(path)) if path.endswith(".json") else _text_of(path)
    if isinstance(context, list) and context and all(isinstance(c, os.PathLike) for c in context):
        return {os.fspath(path): _text_of(path) for path in context}
    return context


def _text_of(path: str | os.PathLike[str]) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


class RLM_REPL:  # noqa: N801 - the name of the document
    """The loop around a root model and a REPL: `model` leads, `recursive_model` is asked about parts.

        rlm = RLM_REPL(model="gpt-5", recursive_model="gpt-5-nano", persistent=True)
        rlm.completion(context={"a.txt": "...", "b.txt": "..."}, query="Which file names the author?")
        rlm.completion(query="And the publisher?")          # the same context, and the variables that are there

    The context is a text, a list, a dict, a path (a file, one that ends in .json as the value that it says, or a folder as a dict from
    name to text) or a list of paths. Other arguments are those of RLMToolCallingAPI.
    """

    DEFAULT_QUERY = (
        "Please read through the context and answer any queries or respond to any instructions "
        "contained within it."
    )

    def __init__(
        self,
        model: str = "gpt-5",
        recursive_model: str = "gpt-5",
        *,
        persistent: bool = False,
        **options: Any,
    ) -> None:
        self._api = RLMToolCallingAPI(model, recursive_model, **options)
        self.model = model
        self.recursive_model = recursive_model
        self.persistent = persistent
        self.messages: list[dict[str, Any]] = []
        self._tools: Sequence[Mapping[str, Any]] | None = None
        self._context: dict[str, Any] = {}

    def completion(
        self,
        context: Any = None,
        query: str | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_results: Sequence[Message] | None = None,
        **request: Any,
    ) -> dict[str, Any]:
        """The result: `type` is "final_answer" or "tool_calls", with `content`, `state` ("complete", "paused") and `iteration`.

        After "tool_calls" call it again with `tool_results`: messages of the role tool, one for each call. With `persistent=True`, a
        call without a context asks another question over the context that is loaded.
        """
        limits: dict[str, Any] = {"keep": True} if self.persistent else {}
        state = self._api.session_state or {}
        if tool_results is not None:
            if state.get("state") != "paused":
                raise ValueError("tool_results: no call waits for results")
            self.messages += [dict(result) for result in tool_results]
            limits.update(self._context)
        elif context is None and self._context:
            if not self.persistent:
                raise ValueError(
                    "another question without a context takes RLM_REPL(persistent=True)"
                )
            self.messages = [{"role": "user", "content": query or self.DEFAULT_QUERY}]
            self._tools = tools
            limits["session"] = state.get("session")
        else:
            self.setup_context(context, query)
            self._tools = tools
            limits.update(self._context)
        response = self._api.chat_completion(self.messages, self._tools, rlm=limits, **request)
        self.messages.append(response["choices"][0]["message"])
        result = dict(self._api.session_state or {})
        result.pop("session", None)
        return result

    def setup_context(self, context: Any, query: str | None = None) -> list[dict[str, Any]]:
        """Takes a context for the next question, and returns the messages that ask it."""
        self._context = {"context": _loaded("" if context is None else context)}
        self.messages = [{"role": "user", "content": query or self.DEFAULT_QUERY}]
        return self.messages

    def reset(self) -> None:
        """Forgets the context and the session."""
        self.messages = []
        self._tools = None
        self._context = {}
        self._api.reset()

    def close(self) -> None:
        self._api.close()

    def __enter__(self) -> RLM_REPL:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def create_rlm_client(
    model: str = "gpt-5", recursive_model: str = "gpt-5", **options: Any
) -> RLMToolCallingAPI:
    return RLMToolCallingAPI(model, recursive_model, **options)


class ChatClient:
    """One ordinary model, asked for whole messages: the client that a loop of one's own stands on.

    client.completion(messages, tools=tools)     # {"content": ..., "tool_calls": ..., "role": "assistant"}
    """

    def __init__(
        self,
        model: str = "gpt-5",
        *,
        config: str | os.PathLike[str] | Service | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 600.0,
    ) -> None:
        self.model = model
        self._models = _transport((model,), config, base_url, api_key, timeout_s)
        self._models.check(model)

    def completion(
        self,
        messages: str | Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        max_tokens: int | None = None,
        **request: Any,
    ) -> dict[str, Any]:
        """`max_tokens` is sent as max_completion_tokens. `tool_calls` is None without calls."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        body: dict[str, Any] = {"model": self.model, "messages": list(messages), **request}
        if tools is not None:
            body["tools"] = list(tools)
        if max_tokens is not None:
            body["max_completion_tokens"] = max_tokens
        message = self._models.ask(body)["choices"][0]["message"]
        calls = message.get("tool_calls") or None
        for call in calls or ():
            call["function"]["arguments"] = Arguments(call["function"]["arguments"])
        return {"content": message.get("content"), "tool_calls": calls, "role": "assistant"}

    def close(self) -> None:
        self._models.close()


def extract_response_content(response: Any) -> Any:
    """The text of a response: of a dict its `content`, or "", and anything else as it is."""
    return response.get("content", "") if isinstance(response, Mapping) else response


def format_tool_calls_for_messages(tool_calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages that contain these calls."""
    return [{"role": "assistant", "tool_calls": tool_calls}]
