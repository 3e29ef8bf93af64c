"""Conversations for the templates beside this file, what each template can do, and cases of single rules of the template language."""
import copy


def tool(name, description, required=(), **properties):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": properties, "required": list(required)}}}


TOOLS = [
    tool("get_weather", "Says what the weather is like in a <place> & how warm it is.", ["place"],
         place={"type": "string", "description": "For example \"Oslo\""}, unit={"type": "string", "enum": ["C", "F"]}),
    tool("add", "Adds numbers", ["numbers"], numbers={"type": "array", "items": {"type": "number"}}, exact={"type": "boolean", "default": False}),
]


def say(role, content, **more):
    return {"role": role, "content": content, **more}


def calls(content, *wanted, **more):
    return say("assistant", content, tool_calls=[{"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
                                                 for id, name, arguments in wanted], **more)


def result(id, name, content):
    return {"role": "tool", "tool_call_id": id, "name": name, "content": content}


SYSTEM, ASK = say("system", "Answer in one sentence."), say("user", "How warm is it in Oslo?")
OSLO, ROME = ("call00001", "get_weather", {"place": "Oslo", "unit": "C"}), ("call00002", "get_weather", {"place": "Rome"})
STEPS = [ASK, calls("", OSLO), result("call00001", "get_weather", "-3 °C"), calls("Now the sum.", ("call00003", "add", {"numbers": [-3, 2.5], "exact": True})),
         result("call00003", "add", "-0.5"), say("assistant", "It is -3 °C; with 2.5 more it would be -0.5 °C."), say("user", "And in Rome?")]
PAIR = [say("user", "Oslo and Rome?"), calls("", OSLO, ROME), result("call00001", "get_weather", "cold"), result("call00002", "get_weather", "warm")]


def as_text(messages):
    """Arguments as JSON texts, as OpenAI's API has them."""
    import json
    messages = copy.deepcopy(messages)
    for message in messages:
        for call in message.get("tool_calls", []):
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
    return messages


# id: (messages, has tools, what else the context has)
CONVERSATIONS = {
    "user": ([say("user", "Name a prime number.")], False, {}),
    "user_without_prompt": ([say("user", "Name a prime number.")], False, {"add_generation_prompt": False}),
    "system_user": ([SYSTEM, say("user", "Name a prime number.")], False, {}),
    "turns": ([say("user", "Name a prime."), say("assistant", " Seven. "), say("user", "\n A larger one?\n"), say("assistant", "Eleven"), say("user", "Thanks")], False, {}),
    "ends_with_an_answer": ([SYSTEM, say("user", "Name a prime."), say("assistant", "Seven.")], False, {"add_generation_prompt": False}),
    "marks": ([say("user", "if a < b && c > 'd' then \"e\" <|im_end|> </tool_call> [/INST] {{ x }} {% y %}")], False, {}),
    "scripts": ([say("user", "Zażółć gęślą jaźń 茶 🎈 \u200b\u00a0e\u0301")], False, {}),
    "empty": ([say("user", "")], False, {}),
    "two_users": ([say("user", "One."), say("user", "Two.")], False, {}),
    "system_later": ([say("user", "Hello"), SYSTEM, say("user", "Hello again")], False, {}),
    "tools_user": ([ASK], True, {}),
    "tools_system_user": ([SYSTEM, ASK], True, {}),
    "call_single": ([ASK, calls("", OSLO), result("call00001", "get_weather", "-3 °C")], True, {}),
    "call_single_null": ([ASK, calls(None, OSLO), result("call00001", "get_weather", "-3 °C")], True, {}),
    "call_single_text": (as_text([ASK, calls("", OSLO), result("call00001", "get_weather", "-3 °C")]), True, {}),
    "call_answered": ([SYSTEM, ASK, calls("I look.", OSLO), result("call00001", "get_weather", "-3 °C"), say("assistant", "It is -3 °C.")], True,
                      {"add_generation_prompt": False}),
    "call_with_another_id": ([ASK, calls("", ("x", "get_weather", {"place": "Oslo"})), result("x", "get_weather", "-3 °C")], True, {}),
    "par_two": (PAIR, True, {}),
    "par_two_answered": ([*PAIR, say("assistant", "Cold and warm."), say("user", "Thanks")], True, {}),
    "par_pending": (PAIR[:2], True, {"add_generation_prompt": False}),
    "multi_step_done_es": ([SYSTEM, *STEPS], True, {}),
    "reasoning_multi_step": ([ASK, calls("", OSLO, reasoning_content="They want the weather."), result("call00001", "get_weather", "-3 °C"),
                              say("assistant", "It is -3 °C.", reasoning_content="Cold.\n")], True, {"add_generation_prompt": False}),
    "thinking_on": ([ASK], True, {"enable_thinking": True}),
    "thinking_off": ([ASK], False, {"enable_thinking": False}),
    "documents_tools": ([SYSTEM, say("user", "What does the second one say?")], True,
                        {"documents": [{"title": "A", "text": "First text"}, {"title": "", "text": "Second <text>"}]}),
    "arguments_of_all_types": ([say("user", "Go"), calls("", ("call00001", "add", {
        "numbers": [1, -2.5, 1e22], "exact": False, "none": None, "text": "a\n\"b\" <c> ü", "object": {"z": 1, "a": [True]}})),
        result("call00001", "add", "")], True, {}),
    "parts": ([say("user", [{"type": "text", "text": "One. "}, {"type": "text", "text": "Two."}])], False, {}),
    "no_message": ([], False, {}),
    "date": ([ASK], False, {"date_string": "1 May 2031"}),
}


def conversations():
    for id, (messages, has_tools, more) in CONVERSATIONS.items():
        yield {"id": id, "note": "", "context": {"messages": messages, "tools": TOOLS if has_tools else None, "documents": None,
                                                 "add_generation_prompt": True, **more}}


# name: (begin token, end token, format or "none", tools, calls in history, several calls, system, switch of thinking)
TEMPLATES = {
    "chatml-plain": ("", "<|im_end|>", "none", False, False, False, True, False),
    "chatml-tools": ("", "<|im_end|>", "hermes", True, True, True, True, False),
    "chatml-thinking": ("", "<|im_end|>", "hermes", True, True, True, True, True),
    "headers-one-call": ("<|begin_of_text|>", "<|eot_id|>", "llama3_json", True, True, False, True, False),
    "inst-brackets": ("<s>", "</s>", "mistral_v3", True, True, True, True, False),
    "inst-system": ("<s>", "</s>", "none", False, False, False, True, False),
    "turns-model": ("<bos>", "<end_of_turn>", "none", False, False, False, False, False),
    "turns-function": ("<bos>", "<end_of_turn>", "functiongemma", True, True, True, True, False),
    "channels": ("", "<|return|>", "harmony", True, True, True, True, False),
    "bars-and-fences": ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "deepseek_v3", True, True, True, True, False),
    "keys-and-values": ("", "<|endoftext|>", "glm45", True, True, True, True, True),
    "parameters-xml": ("", "<|im_end|>", "qwen3_coder", True, True, True, True, False),
    "python-calls": ("<|begin_of_text|>", "<|eot|>", "llama4_pythonic", True, True, True, True, False),
}

CONTEXT = {"word": "Lantern", "none_at_all": None, "seven": 7, "below": -2, "half": 0.5, "yes": True, "no": False, "numbers": [4, 1, 3],
           "words": ["pear", "Fig", "apple"], "object": {"b": 1, "a": {"c": [1, "x"]}}, "empty": "", "nothing": [],
           "people": [{"name": "Ann", "age": 30, "town": "Bern"}, {"name": "Bo", "age": 25, "town": "Oslo"}, {"name": "Cy", "age": 30, "town": "Bern"}],
           "odd": "ä <b> & 'q' \"Q\"\n"}

LANGUAGE = {
    "white space": ["a\n{% if yes %}\n  b\n{% endif %}\nc\n", "a {%- if yes -%} b {%- endif -%} c", "  {%- set x = 1 %}\n  {{ x }}\n", "{# note #}\nx", "x{#- note -#} y",
                    "{% raw %}{{ no }} {% x %}{% endraw %}", "a\n\n{{ word }}\n\n"],
    "values": ["{{ word }} {{ seven }} {{ half }} {{ yes }} {{ none_at_all }} {{ numbers }} {{ object }}", "{{ not_there }}|{{ not_there is defined }}",
               "{{ 1e3 }} {{ 10 / 4 }} {{ 10 // 4 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 1.0 }}", "{{ 'a' \"b\" }}{{ 'it''s' }}", "{{ (1,) }}{{ (1, 'a') }}{{ [] }}{{ {} }}",
               "{{ 'a\\n\\t\\\\' }}", "{{ true and none }} {{ 0 or 'x' }} {{ not 1 }}", "{{ odd }}"],
    "operators": ["{{ seven > 3 and half < 1 }}", "{{ 1 < seven < 10 }}", "{{ 'a' ~ 1 ~ none ~ true }}", "{{ 'x' * 3 }}{{ [1] * 2 }}", "{{ 3 in numbers }} {{ 'z' not in word }} {{ 'b' in object }}",
                  "{{ 'yes' if no else 'no' }}{{ 'only' if no }}", "{{ numbers + [5] }}", "{{ 1 == 1.0 }} {{ '1' == 1 }} {{ [1, 2] == [1, 2] }}", "{{ -seven + 2 * 3 }}", "{{ 'a' < 'b' }}"],
    "subscripts": ["{{ numbers[0] }}{{ numbers[-1] }}{{ word[1:4] }}{{ word[::-1] }}{{ numbers[1:] }}", "{{ object.a.c[1] }}{{ object['b'] }}{{ object.zz }}", "{{ people[0].name }} {{ people[1]['town'] }}",
                   "{{ object.items() | list }}{{ object.keys() | list }}{{ object.get('zz', 3) }}", "{{ numbers[9] }}|"],
    "loops": ["{% for n in numbers %}{{ loop.index }}:{{ n }}{{ ', ' if not loop.last }}{% endfor %}", "{% for n in nothing %}x{% else %}none{% endfor %}",
              "{% for n in numbers if n > 1 %}{{ loop.index0 }}{{ n }}{% endfor %}", "{% for key, value in object | items %}{{ key }}={{ value }};{% endfor %}",
              "{% for n in range(5) %}{% if n == 1 %}{% continue %}{% endif %}{% if n == 4 %}{% break %}{% endif %}{{ n }}{% endfor %}",
              "{% for a in [1, 2] %}{% for b in 'xy' %}{{ loop.parent is defined }}{{ a }}{{ b }} {% endfor %}{% endfor %}", "{% for n in numbers %}{{ loop.first }}{{ loop.length }}{{ loop.revindex }} {% endfor %}",
              "{% for n in numbers %}{{ loop.previtem }}<{{ n }}>{{ loop.nextitem }} {% endfor %}", "{% for n in [1, 2, 3] %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for n in range(10, 0, -3) %}{{ n }} {% endfor %}"],
    "setting": ["{% set x = 1 %}{% for n in numbers %}{% set x = n %}{% endfor %}{{ x }}", "{% set ns = namespace(n=0) %}{% for n in numbers %}{% set ns.n = ns.n + n %}{% endfor %}{{ ns.n }}",
                "{% set text %}a{{ seven }}b{% endset %}[{{ text }}]", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% if yes %}{% set in_if = 3 %}{% endif %}{{ in_if }}"],
    "macros": ["{% macro greet(name, mark='!') %}Hi {{ name }}{{ mark }}{% endmacro %}{{ greet('Ann') }}{{ greet('Bo', mark='?') }}", "{% macro f(x) %}{{ x }}{% if x %}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
               "{% macro wrap() %}[{{ caller() }}]{% endmacro %}{% call wrap() %}in{% endcall %}", "{% macro f(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}|"],
    "filters": ["{{ word | upper }}{{ word | lower }}{{ 'ab cd' | title }}{{ 'ab' | capitalize }}", "{{ '  x ' | trim }}|{{ 'xxaxx' | trim('x') }}", "{{ words | sort }}{{ numbers | sort(reverse=true) }}", "{{ words | join(', ') }}{{ people | map(attribute='name') | join('+') }}",
                "{{ numbers | length }}{{ word | count }}", "{{ numbers | first }}{{ numbers | last }}{{ numbers | sum }}{{ numbers | max }}{{ numbers | min }}", "{{ none_at_all | default('d') }}{{ not_there | default('d') }}{{ empty | default('d', true) }}",
                "{{ object | tojson }}", "{{ object | tojson(indent=2) }}", "{{ odd | tojson }}{{ odd | e }}", "{{ people | selectattr('age', 'gt', 26) | map(attribute='name') | list }}", "{{ people | rejectattr('town', 'equalto', 'Bern') | list | length }}",
                "{% for town, group in people | groupby('town') %}{{ town }}:{{ group | length }} {% endfor %}", "{{ 'a-b-c' | replace('-', '+', 1) }}", "{{ object | dictsort }}", "{{ 3.7 | int }}{{ '12' | int }}{{ 'x' | int(5) }}{{ '1.5' | float }}{{ 2.567 | round(1) }}",
                "{{ [1, 1, 2] | unique | list }}{{ [1, 2, 3] | reverse | list }}", "{{ -3 | abs }}{{ 7 | string ~ 'x' }}", "{{ 'one two' | wordcount }}{{ 'abc' | list }}", "{{ words | map('upper') | list }}{{ numbers | select('odd') | list }}", "{{ 'a\\nb' | indent(2) }}",
                "{{ [1, 2, 3, 4, 5] | batch(2) | list }}", "{{ word | no_such_filter }}"],
    "methods": ["{{ word.upper() }}{{ word.startswith('La') }}{{ 'a,b'.split(',') }}", "{{ ' x '.strip() }}|{{ 'xay'.lstrip('x') }}{{ 'xay'.rstrip('y') }}", "{{ 'a'.join(['1', '2']) }}", "{{ 'abcabc'.replace('b', '_') }}{{ 'abcabc'.find('c') }}{{ 'abcabc'.count('a') }}",
                "{{ '%s-%d' % ('a', 3) }}", "{{ '{}/{}'.format(1, 'b') }}", "{{ 'a</think>b'.split('</think>')[-1] }}", "{{ word.no_such_method() }}"],
    "tests": ["{{ word is string }}{{ seven is number }}{{ yes is boolean }}{{ object is mapping }}{{ numbers is sequence }}{{ numbers is iterable }}", "{{ none_at_all is none }}{{ seven is odd }}{{ 8 is even }}{{ 9 is divisibleby 3 }}", "{{ word is defined }}{{ not_there is undefined }}{{ seven is not none }}",
              "{{ 1 is true }}{{ yes is true }}{{ no is false }}", "{{ 1 is eq 1 }}{{ 2 is gt 1 }}{{ 'a' is in ['a'] }}", "{{ seven is integer }}{{ half is float }}"],
    "errors": ["{{ raise_exception('no: ' ~ seven) }}", "{% if %}", "{{ 1 + 'a' }}", "{{ not_there.member }}", "{% for %}{% endfor %}", "{{ word(", "{% endif %}", "{{ seven / 0 }}", "{{ ''.__class__ }}", "{{ numbers.append(1) }}"],
}
