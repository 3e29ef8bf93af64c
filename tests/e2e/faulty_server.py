"""A server with faults: a proxy in front of a right one (Chat Completions), which does one thing wrong if the model's
name says so: `played+done_missing`. Each fault is one that was found in some server; FAULTS names the check of
`tenon verify` that must find it."""
import contextlib
import http.client
import http.server
import json
import select
import socket
import threading


class Refused(Exception):
    """Raised by a fault in place of an answer."""

    def __init__(self, status, body=None):
        super().__init__(status)
        self.status = status
        self.body = {"error": {"message": "no", "type": "invalid_request_error"}} if body is None else body


FAULTS = {}  # name: (check, functions by place)


def fault(check, place):
    """`place`: wire(bytes of the request), request(body), answer(document, body) or chunks(list of chunks, body), which may change
    their arguments; raw(events as text, body), which returns the text; or stay."""
    def add(function):
        known = FAULTS.setdefault(function.__name__, (check, {}))
        known[1][place] = function
        return function
    return add


def message_of(document):
    return document["choices"][0]["message"]


def calls_of(document):
    return message_of(document).get("tool_calls") or []


def parts_of(chunks):
    """Every part of a call in a stream, with its chunk."""
    for chunk in chunks:
        for choice in chunk["choices"]:
            for part in choice["delta"].get("tool_calls") or []:
                yield chunk, part


def argument_chunks(chunks):
    return [chunk for chunk, part in parts_of(chunks) if part["function"].get("arguments")]


# ---- answers as documents

@fault("protocol/arguments_are_json", "answer")
def arguments_not_json(document, body):
    for call in calls_of(document):
        call["function"]["arguments"] = call["function"]["arguments"][:-1]


@fault("protocol/arguments_are_text", "answer")
def arguments_as_object(document, body):
    for call in calls_of(document):
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])


@fault("protocol/finish_says_calls", "answer")
def finish_stop_with_calls(document, body):
    document["choices"][0]["finish_reason"] = "stop"


@fault("protocol/usage_is_there", "answer")
def usage_missing(document, body):
    document.pop("usage", None)


@fault("protocol/usage_adds_up", "answer")
def usage_does_not_add_up(document, body):
    document["usage"]["total_tokens"] += 7


@fault("protocol/call_has_id", "answer")
def call_id_missing(document, body):
    for call in calls_of(document):
        del call["id"]


@fault("protocol/call_ids_differ", "answer")
def call_ids_equal(document, body):
    for call in calls_of(document):
        call["id"] = "call_0"


@fault("protocol/call_names_a_tool", "answer")
def call_of_no_tool(document, body):
    for call in calls_of(document):
        call["function"]["name"] = "functions." + call["function"]["name"]


@fault("protocol/answer_shape_of_calls", "answer")
def content_missing_beside_calls(document, body):
    if calls_of(document):
        del message_of(document)["content"]


@fault("protocol/finish_is_known", "answer")
def finish_of_another_api(document, body):
    document["choices"][0]["finish_reason"] = "eos_token"


# ---- mistakes in requests

def is_wrong(body):
    return not isinstance(body.get("messages"), list)


@fault("protocol/messages_of_wrong_type", "request")
def mistake_as_500(body):
    if is_wrong(body):
        raise Refused(500)


@fault("protocol/error_body_has_message", "request")
def error_body_of_text(body):
    if is_wrong(body):
        raise Refused(400, {"detail": [{"msg": "Input should be a valid list"}]})


@fault("protocol/unknown_field_is_no_500", "request")
def unknown_field_as_500(body):
    if "verify_unknown_field" in body:
        raise Refused(500)


@fault("protocol/null_is_absent", "request")
def null_refused(body):
    if None in body.values():
        raise Refused(400)


@fault("protocol/choice_of_unknown_tool", "request")
def unknown_choice_taken(body):
    if isinstance(body.get("tool_choice"), dict) and body["tool_choice"].get("function", {}).get("name") == "launch_rocket":
        body["tool_choice"] = "auto"


@fault("protocol/finish_says_length", "request")
def max_tokens_ignored(body):
    body.pop("max_tokens", None)


@fault("protocol/stop_is_honoured", "request")
def stop_ignored(body):
    body.pop("stop", None)


# ---- streams

@fault("streaming/index_counts_up", "chunks")
def index_wrong(chunks, body):
    for _, part in parts_of(chunks):
        part["index"] += 1


@fault("streaming/two_calls_fold_to_whole", "chunks")
def index_always_zero(chunks, body):
    for _, part in parts_of(chunks):
        part["index"] = 0


@fault("streaming/call_id_stays", "chunks")
def call_id_changes(chunks, body):
    for at, (_, part) in enumerate(parts_of(chunks)):
        part["id"] = f"call_{at}"


@fault("streaming/call_begins_with_name", "chunks")
def name_comes_late(chunks, body):
    parts = [part for _, part in parts_of(chunks)]
    if len(parts) > 1:
        parts[1]["function"]["name"] = parts[0]["function"].pop("name")


@fault("streaming/call_name_comes_once", "chunks")
def name_in_every_part(chunks, body):
    parts = [part for _, part in parts_of(chunks)]
    for part in parts[1:]:
        part["function"]["name"] = parts[0]["function"]["name"]


@fault("streaming/call_name_comes_once", "chunks")
def id_in_every_part(chunks, body):
    parts = [part for _, part in parts_of(chunks)]
    for part in parts[1:]:
        part["id"] = parts[0]["id"]


@fault("streaming/chunk_shape_of_calls", "chunks")
def object_missing_beside_calls(chunks, body):
    for chunk, _ in parts_of(chunks):
        del chunk["object"]


@fault("streaming/begins_with_role_before_calls", "chunks")
def role_missing_before_calls(chunks, body):
    if any(parts_of(chunks)):
        role_missing(chunks, body)


@fault("streaming/ends_with_done_after_calls", "raw")
def done_missing_after_calls(text, body):
    return done_missing(text, body) if '"tool_calls"' in text else text


@fault("streaming/finish_says_calls", "chunks")
def finish_stop_with_calls_in_a_stream(chunks, body):
    for chunk in chunks:
        for choice in chunk["choices"]:
            choice["finish_reason"] = choice.get("finish_reason") and "stop"


@fault("streaming/finish_comes_once", "chunks")
def finish_twice(chunks, body):
    chunks += [chunk for chunk in chunks if chunk["choices"] and chunk["choices"][0].get("finish_reason")]


@fault("streaming/finish_is_known", "chunks")
def finish_missing(chunks, body):
    for chunk in chunks:
        for choice in chunk["choices"]:
            choice["finish_reason"] = None


@fault("streaming/usage_is_there", "chunks")
def usage_missing_in_a_stream(chunks, body):
    for chunk in chunks:
        chunk.pop("usage", None)


@fault("streaming/ends_with_done", "raw")
def done_missing(text, body):
    return text.replace("data: [DONE]\n\n", "")


@fault("streaming/events_are_json", "raw")
def stream_ends_within_an_event(text, body):
    return text.replace("data: [DONE]\n\n", "data: [DONE]\n\ndata: {\"id\": ")


@fault("streaming/begins_with_role", "chunks")
def role_missing(chunks, body):
    for chunk in chunks:
        for choice in chunk["choices"]:
            choice["delta"].pop("role", None)


@fault("streaming/chunk_id_stays", "chunks")
def chunk_id_changes(chunks, body):
    for at, chunk in enumerate(chunks):
        chunk["id"] = f"chatcmpl-{at}"


@fault("streaming/arguments_fold_to_json", "chunks")
def arguments_repeated(chunks, body):
    for chunk in argument_chunks(chunks)[1:2]:
        chunks.insert(chunks.index(chunk), chunk)


@fault("streaming/arguments_fold_to_json", "chunks")
def arguments_taken_back(chunks, body):
    """The whole arguments once more at the end, as servers do that send them anew."""
    parts = argument_chunks(chunks)
    if parts:
        whole = "".join(part["function"].get("arguments", "") for _, part in parts_of(chunks))
        again = json.loads(json.dumps(parts[-1]))
        again["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] = whole
        chunks.insert(chunks.index(parts[-1]) + 1, again)


@fault("streaming/unicode_whole", "raw")
def character_cut_in_two(text, body):
    return text.replace("世", "\ufffd\ufffd").replace("\\u4e16", "\\ufffd\\ufffd")


@fault("streaming/text_folds_to_whole", "chunks")
def stream_lacks_last_text(chunks, body):
    said = [chunk for chunk in chunks if chunk["choices"] and chunk["choices"][0]["delta"].get("content")]
    if said:
        chunks.remove(said[-1])


@fault("streaming/calls_fold_to_whole", "chunks")
def stream_lacks_calls(chunks, body):
    """The markers of a call come as text, as where the parser of a stream is another one."""
    for chunk, part in list(parts_of(chunks)):
        said = part["function"].get("arguments") or part["function"].get("name") or ""
        chunk["choices"][0]["delta"] = {"content": said}


@fault("streaming/content_type_is_event_stream", "raw")
def stream_of_plain_text(text, body):
    return text, "text/plain"


@fault("streaming/cut_call_is_told", "chunks")
def cut_call_not_told(chunks, body):
    for chunk in chunks:
        for choice in chunk["choices"]:
            if choice.get("finish_reason") == "length":
                choice["finish_reason"] = "tool_calls"


# ---- choice

def demands(body):
    return body.get("tool_choice") == "required" and body["messages"][-1]["content"].startswith("Say hello")


@fault("choice/none_makes_no_call", "request")
def none_ignored(body):
    if body.get("tool_choice") == "none":
        del body["tool_choice"]


@fault("choice/required_makes_a_call", "answer")
def required_ignored(document, body):
    if demands(body):
        message_of(document).update(content="Hello!", tool_calls=None)
        document["choices"][0]["finish_reason"] = "stop"


@fault("choice/named_other_is_called", "answer")
def named_ignored(document, body):
    for call in calls_of(document):
        call["function"]["name"] = body["tools"][0]["function"]["name"]


@fault("choice/parallel_off_makes_one", "request")
def parallel_ignored(body):
    body.pop("parallel_tool_calls", None)


@fault("choice/parallel_makes_two", "answer")
def one_call_only(document, body):
    del calls_of(document)[1:]


@fault("choice/choice_without_tools", "request")
def choice_without_tools_as_500(body):
    if "tool_choice" in body and not body.get("tools"):
        raise Refused(500)


# ---- schemas: calls that do not fit come without a word

def schema_of(body):
    tools = body.get("tools") or [{}]
    return json.dumps(tools[0].get("function", {}).get("parameters", {}))


def not_told(keyword):
    """Arguments that break the keyword come as if they were right."""
    def answer(document, body):
        if keyword in schema_of(body):
            document.pop("tenon", None)
    return answer


for _name, _keyword in {"enum": "enum", "pattern": "pattern", "minLength": "minLength", "additionalProperties_false": "additionalProperties",
                        "uniqueItems": "uniqueItems", "ref": "$ref", "oneOf_not_both": "oneOf", "if_then_else": "if"}.items():
    FAULTS[f"{_name}_not_enforced"] = (f"schemas/{_name}", {"answer": not_told(f'"{_keyword}"')})


@fault("schemas/enum", "request")
def crash_at_what_does_not_fit(body):
    if '"enum"' in schema_of(body) and "purple" in body["messages"][-1]["content"]:
        raise Refused(500)


@fault("schemas/maximum", "answer")
def arguments_changed(document, body):
    """A repair that makes something else of what was right."""
    for call in calls_of(document):
        call["function"]["arguments"] = call["function"]["arguments"].replace("4", "5")


@fault("schemas/type_integer", "answer")
def numbers_as_texts(document, body):
    document.pop("tenon", None)
    for call in calls_of(document):
        call["function"]["arguments"] = call["function"]["arguments"].replace(": 7}", ': "7"}')


# ---- histories

def assistants_with_calls(body):
    return [message for message in body.get("messages", []) if isinstance(message, dict) and message.get("tool_calls")]


def roles_of(body):
    return [message.get("role") for message in body.get("messages", [])] if not is_wrong(body) else []


@fault("history/call_and_result", "request")
def history_with_calls_refused(body):
    if "tool" in roles_of(body):
        raise Refused(400)


@fault("history/content_null_beside_calls", "request")
def null_content_refused(body):
    if any(message.get("content", "") is None for message in assistants_with_calls(body)):
        raise Refused(400)


@fault("history/content_missing_beside_calls", "request")
def missing_content_as_500(body):
    if any("content" not in message for message in assistants_with_calls(body)):
        raise Refused(500)


@fault("history/system_in_the_middle", "request")
def system_in_the_middle_as_500(body):
    """What the template's exception is where it is not caught."""
    if "system" in roles_of(body)[1:]:
        raise Refused(500)


@fault("history/developer_role", "request")
def developer_refused(body):
    if "developer" in roles_of(body):
        raise Refused(422)


@fault("history/two_assistants_in_a_row", "request")
def two_assistants_as_500(body):
    roles = roles_of(body)
    if ("assistant", "assistant") in zip(roles, roles[1:]):
        raise Refused(500)


@fault("history/result_in_parts", "request")
def parts_refused(body):
    if any(isinstance(message.get("content"), list) and message["role"] == "tool" for message in body.get("messages", [])):
        raise Refused(400)


@fault("history/members_of_sdks", "request")
def members_of_sdks_refused(body):
    if any("annotations" in message for message in assistants_with_calls(body)):
        raise Refused(422)


@fault("history/arguments_no_json", "request")
def broken_history_as_500(body):
    with_calls = assistants_with_calls(body)
    if any(call["function"]["arguments"].endswith("Lis") for message in with_calls for call in message["tool_calls"]):
        raise Refused(500)


@fault("history/result_reaches_model", "request")
def results_dropped(body):
    for message in body.get("messages", []):
        if message.get("role") == "tool":
            message["content"] = ""


@fault("history/system_reaches_model", "request")
def system_dropped(body):
    body["messages"] = [message for message in body["messages"] if message.get("role") != "system"]


@fault("history/earlier_arguments_reach_model", "request")
def earlier_calls_dropped(body):
    for message in assistants_with_calls(body):
        for call in message["tool_calls"]:
            call["function"]["arguments"] = "{}"


# ---- text

@fault("text/no_markers_in_text", "answer")
def end_marker_in_text(document, body):
    message_of(document)["content"] = (message_of(document).get("content") or "") + "<|im_end|>"


@fault("text/no_markers_beside_calls", "answer")
def call_marker_in_text(document, body):
    if calls_of(document):
        message_of(document)["content"] = "<tool_call>"


@fault("text/no_markers_beside_calls_in_a_stream", "chunks")
def call_marker_in_a_stream(chunks, body):
    for chunk, _ in list(parts_of(chunks))[:1]:
        chunk["choices"][0]["delta"]["content"] = "<tool_call>"


@fault("text/reasoning_is_apart", "answer")
def reasoning_in_text(document, body):
    message = message_of(document)
    if message.get("reasoning_content"):
        message["content"] = f"<think>\n{message.pop('reasoning_content')}\n</think>\n\n{message['content']}"


@fault("text/unicode_in_arguments", "answer")
def question_marks_in_arguments(document, body):
    for call in calls_of(document):
        call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]), ensure_ascii=False) \
            .encode("ascii", "replace").decode()


@fault("text/escapes_in_arguments", "answer")
def escapes_lost_in_arguments(document, body):
    for call in calls_of(document):
        call["function"]["arguments"] = call["function"]["arguments"].replace("\\\\", "").replace("\\t", " ")


@fault("text/large_numbers_in_arguments", "answer")
def numbers_as_floats(document, body):
    for call in calls_of(document):
        arguments = json.loads(call["function"]["arguments"])
        if "n" in arguments:
            call["function"]["arguments"] = json.dumps({"n": float(arguments["n"])})


@fault("text/long_arguments_in_a_stream", "chunks")
def long_stream_cut(chunks, body):
    for chunk, part in list(parts_of(chunks))[300:310]:
        part["function"]["arguments"] = ""


@fault("text/text_before_a_call", "answer")
def text_before_calls_lost(document, body):
    if calls_of(document):
        message_of(document)["content"] = None


@fault("text/lone_surrogate", "wire")
def lone_surrogate_as_500(data):
    if b"\\ud83d " in data:
        raise Refused(500)


@fault("text/unicode_reaches_model", "request")
def prompts_are_ascii(body):
    for message in body.get("messages", []):
        if isinstance(message.get("content"), str):
            message["content"] = message["content"].encode("ascii", "replace").decode()


# ---- limits, injection

def is_large(body):
    return len(json.dumps(body)) > 1_000_000


@fault("limits/context_overflow_is_told", "request")
def overflow_cut_in_silence(body):
    if is_large(body):
        body["messages"][-1]["content"] = "w0 " + body["messages"][-1]["content"][-300:]


@fault("limits/context_overflow_is_told", "request")
def overflow_as_500(body):
    if is_large(body):
        raise Refused(500)


@fault("limits/long_tool_name", "request")
def long_name_as_500(body):
    if any(len(tool["function"]["name"]) > 128 for tool in body.get("tools", [])):
        raise Refused(500)


def swallowed(text):
    """As few tokens as where the marker is a control token: the engine's tokens are bytes."""
    return text.replace("<|im_end|>", "z") if isinstance(text, str) else text


@fault("injection/no_control_tokens_in_users_text", "request")
def control_tokens_of_users(body):
    for message in body["messages"]:
        if message["role"] == "user":
            message["content"] = swallowed(message["content"])


@fault("injection/no_control_tokens_in_tool_result", "request")
def control_tokens_of_results(body):
    for message in body["messages"]:
        if message["role"] == "tool":
            message["content"] = swallowed(message["content"])


@fault("injection/no_control_tokens_in_tool_description", "request")
def control_tokens_of_tools(body):
    for tool in body.get("tools", []):
        tool["function"]["description"] = swallowed(tool["function"]["description"])


@fault("injection/call_in_a_result_is_data", "answer")
def result_is_parsed(document, body):
    if any("<tool_call>" in str(message.get("content")) for message in body["messages"] if message["role"] == "tool"):
        message_of(document)["tool_calls"] = [
            {"id": "call_9", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}]
        document["choices"][0]["finish_reason"] = "tool_calls"


# ---- structured output, determinism, cancellation

@fault("structured/json_schema_is_kept", "answer")
def schema_of_text_ignored(document, body):
    if not calls_of(document) and "json_schema" in (body.get("response_format") or {}):
        document.pop("tenon", None)


@fault("structured/json_schema_is_kept", "answer")
def fence_around_json(document, body):
    if "json_schema" in (body.get("response_format") or {}):
        message_of(document)["content"] = f"```json\n{message_of(document)['content']}\n```"


@fault("structured/call_beside_json_schema", "request")
def schema_takes_tools_away(body):
    if body.get("response_format"):
        body.pop("tools", None)
        body.pop("tool_choice", None)


@fault("determinism/seed_repeats", "request")
def seed_ignored(body):
    body.pop("seed", None)


@fault("determinism/other_seed_differs", "request")
def one_seed_for_all(body):
    body["seed"] = 1


@fault("cancellation/stream_ends_with_its_client", "stay")
def streams_go_on(body):
    """The proxy reads to the end whatever its client does."""


@fault("cancellation/document_ends_with_its_client", "stay")
def documents_go_on(body):
    """The same, while the client waits for the whole answer."""


# ---- the proxy

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes

    def log_message(self, *_):
        pass

    def do_GET(self):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.server.behind)) as upstream:
            upstream.request("GET", self.path)
            answer = upstream.getresponse()
            self.send(answer.status, answer.read(), answer.getheader("content-type"))

    def do_POST(self):
        data = self.rfile.read(int(self.headers.get("content-length", 0)))
        body, places = None, {}
        with contextlib.suppress(ValueError, RecursionError):
            body = json.loads(data)
        if isinstance(body, dict) and isinstance(body.get("model"), str):
            body["model"], _, name = body["model"].partition("+")
            places = FAULTS[name][1] if name else {}
            try:
                if "wire" in places:
                    places["wire"](data)
                if "request" in places:
                    places["request"](body)
            except Refused as refused:
                return self.send(refused.status, json.dumps(refused.body).encode(), "application/json")
            data = json.dumps(body).encode()
        self.forward(data, body, places)

    def forward(self, data, body, places):
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.behind)
        with contextlib.closing(upstream):
            upstream.request("POST", self.path, data, {"content-type": "application/json"})
            if "stay" not in places and self.client_leaves(upstream.sock):
                return
            answer = upstream.getresponse()
            kind = answer.getheader("content-type")
            if answer.status == 200 and kind.startswith("text/event-stream"):
                self.send_stream(answer, body, places)
            else:
                self.send(*self.changed(answer, body, places), kind)

    def client_leaves(self, other):
        """Waits for the answer; True if the client has gone away before."""
        while True:
            ready, _, _ = select.select([self.connection, other], [], [])
            if other in ready:
                return False
            if not self.connection.recv(1, socket.MSG_PEEK):
                return True

    def changed(self, answer, body, places):
        data = answer.read()
        if answer.status == 200 and "answer" in places:
            document = json.loads(data)
            places["answer"](document, body)
            data = json.dumps(document).encode()
        return answer.status, data

    def send(self, status, data, kind):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def send_stream(self, answer, body, places):
        if places.keys() & {"chunks", "raw"}:
            kind, text = "text/event-stream", answer.read().decode()
            if "chunks" in places:
                chunks = [json.loads(line[6:]) for line in text.split("\n\n") if line.startswith("data: {")]
                places["chunks"](chunks, body)
                text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
            if "raw" in places:
                text = places["raw"](text, body)
                text, kind = text if isinstance(text, tuple) else (text, kind)
            return self.send(200, text.encode(), kind)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        is_there = True
        while piece := answer.read1():
            try:
                if is_there:
                    self.wfile.write(piece)
            except OSError:
                is_there = False
                if "stay" not in places:
                    break


class Faulty(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, behind):
        super().__init__(("127.0.0.1", 0), Handler)
        self.behind = behind
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        pass  # a client that has gone away


@contextlib.contextmanager
def serving_faults(behind):
    """The proxy in front of the server at the port `behind`."""
    server = Faulty(behind)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
