"""A session of opencode as it was recorded (31 KB a request, ten tools, six results at once), against a model of
Llama 3.1's template, which takes one call a message, and against the same model when it writes calls otherwise. The
requests' words are opencode's own (github.com/anomalyco/opencode, MIT licence)."""
import json
from pathlib import Path

import pytest
from openai import OpenAI
from scripted_upstream import LLAMA31, call, serving_script

SESSION = json.loads((Path(__file__).parent / "clients" / "opencode" / "session.json").read_text())
RECORDED = [(one["function"]["name"], json.loads(one["function"]["arguments"])) for one in SESSION["answered"][0]["tool_calls"]]
RESULTS = [message["content"] for message in SESSION["answered"][1:]]

FORMS = {
    "llama3_json": lambda: "; ".join(json.dumps({"name": name, "parameters": arguments}) for name, arguments in RECORDED),
    "hermes": lambda: "Let me see.\n" + "\n".join(call(name, arguments) for name, arguments in RECORDED),
    "calling_tool": lambda: "\n".join(f"[Calling tool: {name}({json.dumps(arguments)})]" for name, arguments in RECORDED),
}


def stream(client, request):
    """The message that a client of the SDK puts together, and what the server says of it."""
    text, calls, tenon = "", {}, None
    for chunk in client.chat.completions.create(**request):
        tenon = getattr(chunk, "tenon", None) or tenon
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for delta in choice.delta.tool_calls or []:
                known = calls.setdefault(delta.index, {"id": delta.id, "type": "function",
                                                       "function": {"name": delta.function.name, "arguments": ""}})
                known["function"]["arguments"] += delta.function.arguments or ""
    return {"role": "assistant", "content": text, "tool_calls": [calls[at] for at in sorted(calls)]}, tenon


@pytest.mark.parametrize("form", FORMS)
def test_runs_to_its_end(tmp_path, form):
    def script(prompt):
        if "Functions:" not in prompt and "returned: " not in prompt:
            return "A title"
        return "All done." if "returned: " in prompt else FORMS[form]()

    assert len(json.dumps(SESSION["turn"])) > 30_000 and len(SESSION["turn"]["tools"]) == 10 and len(RECORDED) == 6
    with serving_script(tmp_path, script, LLAMA31, "llama3_json") as (server, upstream):
        client = OpenAI(base_url=server.url + "/v1", api_key="none")
        title, _ = stream(client, SESSION["title"])
        assert title["content"] == "A title" and not title["tool_calls"]
        answer, tenon = stream(client, SESSION["turn"])
        assert [(one["function"]["name"], json.loads(one["function"]["arguments"])) for one in answer["tool_calls"]] == RECORDED
        assert tenon["guarantee"] == "validated" and tenon["format"] == form, tenon
        assert (form != "llama3_json") == ("fallback_format" in [repair["code"] for repair in tenon["repairs"]])
        results = [{"role": "tool", "tool_call_id": one["id"], "content": result}
                   for one, result in zip(answer["tool_calls"], RESULTS, strict=True)]
        messages = [*SESSION["turn"]["messages"], answer, *results]
        last, _ = stream(client, {**SESSION["turn"], "messages": messages})
        assert last["content"] == "All done." and not last["tool_calls"]
        # As opencode itself sent it, with ids of its own.
        last, _ = stream(client, {**SESSION["turn"], "messages": SESSION["turn"]["messages"] + SESSION["answered"]})
        assert last["content"] == "All done."
    for name, result in zip((name for name, _ in RECORDED), RESULTS, strict=True):
        assert f"Tool '{name}' returned: {result}" in upstream.prompts[-1]
    assert all(f'"name": "{tool["function"]["name"]}"' in upstream.prompts[1] for tool in SESSION["turn"]["tools"])
