"""The chat format of the model: ChatML turns, tools as short lines, Hermes tool calls.

Tools are declared in lines like those of a TypeScript interface, since JSON Schema costs two to three times the tokens
and most of them say nothing. A mark stands before the name of each, so that its beginning is easy to find.

`CHAT_TEMPLATE` is what the model file carries. `render_prefix` and
`render_messages` write the same text in pieces, so that training knows which
pieces the model has to produce; `check_template.py` holds the two against
each other.
"""

import json

CONTROL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
)
TOOLS_LINE = "Call a tool if one fits.\n"
MARK = "#"

CHAT_TEMPLATE = r"""
{%- macro text(content) -%}
  {%- if content is string -%}
    {{- content -}}
  {%- elif content -%}
    {%- for part in content -%}
      {%- if part is string -%}{{- part -}}{%- elif part.text is defined -%}{{- part.text -}}{%- endif -%}
    {%- endfor -%}
  {%- endif -%}
{%- endmacro -%}
{%- macro kind(schema) -%}
  {%- if schema.enum is defined -%}
    {{- schema.enum | join('|') -}}
  {%- elif schema.type == 'array' and schema['items'] is mapping -%}
    {{- kind(schema['items']) + '[]' -}}
  {%- elif schema.type is string and schema.properties is not defined -%}
    {{- schema.type -}}
  {%- else -%}
    {{- schema | tojson -}}
  {%- endif -%}
{%- endmacro -%}
{%- set system = text(messages[0].content) if messages and messages[0].role in ['system', 'developer'] else '' -%}
{%- if tools or system -%}
  {{- '<|im_start|>system\n' + system -}}
  {%- if tools -%}
    {{- ('\n\n' if system else '') + 'Call a tool if one fits.\n<tools>\n' -}}
    {%- for tool in tools -%}
      {%- set function = tool.function if tool.function is defined else tool -%}
      {%- set parameters = function.parameters if function.parameters else {} -%}
      {{- '#' + function.name + (': ' + function.description if function.description else '') + '\n' -}}
      {%- for key, schema in (parameters.properties if parameters.properties else {}).items() -%}
        {{- ' ' + key + ('' if key in (parameters.required if parameters.required else []) else '?') + ': ' + kind(schema) -}}
        {{- (' ' + schema.description if schema.description and schema.properties is not defined else '') + '\n' -}}
      {%- endfor -%}
    {%- endfor -%}
    {{- '</tools>' -}}
  {%- endif -%}
  {{- '<|im_end|>\n' -}}
{%- endif -%}
{%- for message in messages -%}
  {%- if message.role == 'tool' -%}
    {{- '<|im_start|>user\n' if loop.first or loop.previtem.role != 'tool' else '\n' -}}
    {{- '<tool_response>\n' + text(message.content) + '\n</tool_response>' -}}
    {{- '<|im_end|>\n' if loop.last or loop.nextitem.role != 'tool' -}}
  {%- elif message.role == 'assistant' -%}
    {%- set content = text(message.content) -%}
    {{- '<|im_start|>assistant\n' + content -}}
    {%- for call in (message.tool_calls if message.tool_calls else []) -%}
      {%- set function = call.function if call.function is defined else call -%}
      {{- ('' if loop.first and not content else '\n') + '<tool_call>\n{"name": ' -}}
      {{- function.name | tojson }}{{ ', "arguments": ' -}}
      {{- function.arguments if function.arguments is string else (function.arguments | tojson) -}}
      {{- '}\n</tool_call>' -}}
    {%- endfor -%}
    {{- '<|im_end|>\n' -}}
  {%- elif not (loop.first and message.role in ['system', 'developer']) -%}
    {{- '<|im_start|>' + message.role + '\n' + text(message.content) + '<|im_end|>\n' -}}
  {%- endif -%}
{%- endfor -%}
{{- '<|im_start|>assistant\n' if add_generation_prompt -}}
""".strip()


def dumps(value):
    """JSON as transformers' `tojson` writes it: key order kept, ", " and ": "."""
    return json.dumps(value, ensure_ascii=False)


def render_kind(schema):
    if "enum" in schema:
        return "|".join(str(value) for value in schema["enum"])
    if schema.get("type") == "array" and "items" in schema:
        return render_kind(schema["items"]) + "[]"
    if isinstance(schema.get("type"), str) and "properties" not in schema:
        return schema["type"]
    return dumps(schema)


def render_tool(function):
    """A tool as the prompt declares it: a line for it and one for each parameter, "?" after the optional ones."""
    parameters = function.get("parameters") or {}
    text = (
        MARK
        + function["name"]
        + (": " + function["description"] if function.get("description") else "")
        + "\n"
    )
    for key, schema in (parameters.get("properties") or {}).items():
        text += " %s%s: %s" % (
            key,
            "" if key in (parameters.get("required") or ()) else "?",
            render_kind(schema),
        )
        text += (
            " " + schema["description"]
            if schema.get("description") and "properties" not in schema
            else ""
        ) + "\n"
    return text


def render_prefix(tools, system):
    """The system turn, or nothing."""
    if not tools and not system:
        return ""
    body = system
    if tools:
        body += ("\n\n" if system else "") + TOOLS_LINE + "<tools>\n"
        body += "".join(render_tool(tool["function"]) for tool in tools) + "</tools>"
    return "<|im_start|>system\n" + body + "<|im_end|>\n"


def render_calls(calls):
    return "\n".join(
        '<tool_call>\n{"name": %s, "arguments": %s}\n</tool_call>'
        % (dumps(c["name"]), dumps(c["arguments"]))
        for c in (call["function"] for call in calls)
    )


def render_messages(messages):
    """The turns after the system turn as (text, is written by the model) pieces."""
    pieces = []
    role = None
    for message in messages:
        if message["role"] == "assistant":
            text = (
                message["content"]
                if not message.get("tool_calls")
                else render_calls(message["tool_calls"])
            )
            pieces += [
                ("<|im_start|>assistant\n", False),
                (text + "<|im_end|>", True),
                ("\n", False),
            ]
        elif message["role"] == "tool":
            response = "<tool_response>\n%s\n</tool_response>" % message["content"]
            if role == "tool":
                text, _ = pieces.pop()
                pieces.append(
                    (text.removesuffix("<|im_end|>\n") + "\n" + response + "<|im_end|>\n", False)
                )
            else:
                pieces.append(("<|im_start|>user\n" + response + "<|im_end|>\n", False))
        else:
            pieces.append(
                ("<|im_start|>%s\n%s<|im_end|>\n" % (message["role"], message["content"]), False)
            )
        role = message["role"]
    return pieces
