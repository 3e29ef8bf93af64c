"""What models write, in some thirty formats, and the message that it means. Written for Tenon, after the formats' own descriptions."""


def tool(name, required=(), **properties):
    return {"type": "function", "function": {"name": name, "description": f"For tests: {name}", "parameters": {
        "type": "object", "properties": properties, "required": list(required)}}}


TEXT, NUMBER, INTEGER, FLAG = {"type": "string"}, {"type": "number"}, {"type": "integer"}, {"type": "boolean"}
TOOLS = [
    tool("book_table", ["place", "guests"], place=TEXT, guests=INTEGER, outside=FLAG, note={"type": ["string", "null"]}),
    tool("set_lamp", ["room"], room=TEXT, level=NUMBER, colours={"type": "array", "items": TEXT}),
    tool("save_note", ["text"], text=TEXT, labels={"type": "object"}),
    tool("list_rooms"),
]


def lamp(room, **more):
    return ("set_lamp", {"room": room, **more})


def table(place, guests, **more):
    return ("book_table", {"place": place, "guests": guests, **more})


ROOMS = ("list_rooms", {})


def note(text, **more):
    return ("save_note", {"text": text, **more})


# (format, name, text, calls, content, reasoning). A format's cases: a call with arguments of several kinds; two calls; text alone.
CASES = [
    ("hermes", "typed", '<tool_call>\n{"name": "book_table", "arguments": {"place": "Chez Zoë", "guests": 4, "outside": true, "note": null}}\n</tool_call>',
     [table("Chez Zoë", 4, outside=True, note=None)], "", ""),
    ("hermes", "two", '<tool_call>\n{"name": "set_lamp", "arguments": {"room": "attic", "level": 0.25}}\n</tool_call>\n'
     '<tool_call>\n{"name": "list_rooms", "arguments": {}}\n</tool_call>', [lamp("attic", level=0.25), ROOMS], "", ""),
    ("hermes", "text", "A lamp < a table, but 2 > 1 {braces} stay.", [], "A lamp < a table, but 2 > 1 {braces} stay.", ""),
    ("hermes", "text_and_call", 'I note it down.\n<tool_call>\n{"name": "save_note", "arguments": {"text": "milk"}}\n</tool_call>',
     [note("milk")], "I note it down.\n", ""),
    ("hermes", "reasoning", '<think>\nThe attic is dark.\n</think>\n\n<tool_call>\n{"name": "set_lamp", "arguments": {"room": "attic"}}\n</tool_call>',
     [lamp("attic")], "", "The attic is dark."),
    ("hermes", "markers_in_a_string", '<tool_call>\n{"name": "save_note", "arguments": {"text": "a </tool_call> in it \\"quoted\\" \\\\ \\n"}}\n</tool_call>',
     [note('a </tool_call> in it "quoted" \\ \n')], "", ""),
    ("hermes", "unicode", '<tool_call>\n{"name": "save_note", "arguments": {"text": "caf\\u00e9 \\ud83c\\udf7d 茶"}}\n</tool_call>',
     [note("café 🍽 茶")], "", ""),
    ("hermes", "nested", '<tool_call>\n{"name": "save_note", "arguments": {"text": "x", "labels": {"a": [1, -2.5e3, {}], "b": {"c": null}}}}\n</tool_call>',
     [note("x", labels={"a": [1, -2500.0, {}], "b": {"c": None}})], "", ""),
    ("qwen3", "two", '<tool_call>\n{"name": "set_lamp", "arguments": {"room": "hall"}}\n</tool_call>\n'
     '<tool_call>\n{"name": "set_lamp", "arguments": {"room": "cellar"}}\n</tool_call>', [lamp("hall"), lamp("cellar")], "", ""),
    ("llama3_json", "typed", '{"name": "book_table", "parameters": {"place": "Noma", "guests": 2}}', [table("Noma", 2)], "", ""),
    ("llama3_json", "two", '{"name": "set_lamp", "parameters": {"room": "hall"}}; {"name": "list_rooms", "parameters": {}}',
     [lamp("hall"), ROOMS], "", ""),
    ("llama3_json", "text", "The rooms are hall, attic and cellar.", [], "The rooms are hall, attic and cellar.", ""),
    ("llama3_python_tag", "typed", '<|python_tag|>{"name": "save_note", "parameters": {"text": "[1] = \'one\'"}}', [note("[1] = 'one'")], "", ""),
    ("llama4_pythonic", "typed", '[book_table(place="Noma", guests=6, outside=False, note=None)]', [table("Noma", 6, outside=False, note=None)], "", ""),
    ("llama4_pythonic", "two", '[set_lamp(room="attic", colours=["red", "blue"]), list_rooms()]', [lamp("attic", colours=["red", "blue"]), ROOMS], "", ""),
    ("olmo3", "two", '<function_calls>\nset_lamp(room="attic", level=0.5)\nlist_rooms()\n</function_calls>', [lamp("attic", level=0.5), ROOMS], "", ""),
    ("lfm2", "typed", '<|tool_call_start|>[save_note(text="a \\"b\\"", labels={"k": [1, True, None]})]<|tool_call_end|>',
     [note('a "b"', labels={"k": [1, True, None]})], "", ""),
    ("mistral_v3", "two", '[TOOL_CALLS][{"name": "set_lamp", "arguments": {"room": "hall"}}, {"name": "list_rooms", "arguments": {}}]',
     [lamp("hall"), ROOMS], "", ""),
    ("mistral_v11", "two", '[TOOL_CALLS]set_lamp[ARGS]{"room": "hall", "level": 1}[TOOL_CALLS]list_rooms[ARGS]{}', [lamp("hall", level=1), ROOMS], "", ""),
    ("mistral_v11", "text_and_call", 'Of course.[TOOL_CALLS]list_rooms[ARGS]{}', [ROOMS], "Of course.", ""),
    ("harmony", "two", '<|channel|>commentary to=functions.set_lamp <|constrain|>json<|message|>{"room": "hall"}<|call|>'
     '<|start|>assistant<|channel|>commentary to=functions.list_rooms <|constrain|>json<|message|>{}<|call|>', [lamp("hall"), ROOMS], "", ""),
    ("harmony", "reasoning_and_text", "<|channel|>analysis<|message|>They ask for rooms.<|end|><|start|>assistant<|channel|>final<|message|>Three rooms.",
     [], "Three rooms.", "They ask for rooms."),
    ("functiongemma", "typed", "<start_function_call>call:book_table{place:<escape>Noma<escape>,guests:3,outside:true}<end_function_call>",
     [table("Noma", 3, outside=True)], "", ""),
    ("functiongemma", "two", "<start_function_call>call:set_lamp{room:<escape>a {b} \"c\"<escape>}<end_function_call>"
     "<start_function_call>call:list_rooms{}<end_function_call>", [lamp('a {b} "c"'), ROOMS], "", ""),
    ("gemma4", "typed", '<|tool_call>call:set_lamp{room:<|"|>hall<|"|>,colours:[<|"|>red<|"|>,<|"|>blue<|"|>]}<tool_call|>',
     [lamp("hall", colours=["red", "blue"])], "", ""),
    ("deepseek_v3", "two", '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>set_lamp\n```json\n{"room": "hall"}\n```<｜tool▁call▁end｜>\n'
     '<｜tool▁call▁begin｜>function<｜tool▁sep｜>list_rooms\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>', [lamp("hall"), ROOMS], "", ""),
    ("deepseek_v31", "typed", '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>book_table<｜tool▁sep｜>{"place": "Noma", "guests": 12}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
     [table("Noma", 12)], "", ""),
    ("kimi_k2", "two", '<|tool_calls_section_begin|><|tool_call_begin|>functions.set_lamp:0<|tool_call_argument_begin|>{"room": "hall"}<|tool_call_end|>'
     '<|tool_call_begin|>functions.list_rooms:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>', [lamp("hall"), ROOMS], "", ""),
    ("glm45", "typed", '<tool_call>book_table\n<arg_key>place</arg_key>\n<arg_value>Noma</arg_value>\n<arg_key>guests</arg_key>\n<arg_value>5</arg_value>\n'
     '<arg_key>outside</arg_key>\n<arg_value>true</arg_value>\n</tool_call>', [table("Noma", 5, outside=True)], "", ""),
    ("qwen3_coder", "typed", "<tool_call>\n<function=save_note>\n<parameter=text>\nfirst line\n  second <line>\n</parameter>\n</function>\n</tool_call>",
     [note("first line\n  second <line>")], "", ""),
    ("qwen3_coder", "two", "<tool_call>\n<function=set_lamp>\n<parameter=room>\nhall\n</parameter>\n<parameter=level>\n0.75\n</parameter>\n</function>\n</tool_call>\n"
     "<tool_call>\n<function=list_rooms>\n</function>\n</tool_call>", [lamp("hall", level=0.75), ROOMS], "", ""),
    ("minimax_m2", "two", '<minimax:tool_call>\n<invoke name="set_lamp">\n<parameter name="room">hall</parameter>\n</invoke>\n'
     '<invoke name="list_rooms">\n</invoke>\n</minimax:tool_call>', [lamp("hall"), ROOMS], "", ""),
    ("granite3", "two", '<|tool_call|>[{"name": "set_lamp", "arguments": {"room": "hall"}}, {"name": "list_rooms", "arguments": {}}]',
     [lamp("hall"), ROOMS], "", ""),
    ("phi4_mini", "typed", 'functools[{"name": "book_table", "arguments": {"place": "Noma", "guests": 1}}]', [table("Noma", 1)], "", ""),
    ("jamba", "two", '<tool_calls>[{"name": "set_lamp", "arguments": {"room": "hall"}}, {"name": "list_rooms", "arguments": {}}]</tool_calls>',
     [lamp("hall"), ROOMS], "", ""),
    ("seed_oss", "typed", "<seed:tool_call>\n<function=set_lamp>\n<parameter=room>hall</parameter>\n<parameter=colours>[\"red\"]</parameter>\n</function>\n</seed:tool_call>",
     [lamp("hall", colours=["red"])], "", ""),
    ("longcat", "typed", '<longcat_tool_call>\n{"name": "set_lamp", "arguments": {"room": "hall"}}\n</longcat_tool_call>', [lamp("hall")], "", ""),
    ("cohere_r7b", "two", '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "set_lamp", "parameters": {"room": "hall"}}, '
     '{"tool_call_id": "1", "tool_name": "list_rooms", "parameters": {}}]<|END_ACTION|>', [lamp("hall"), ROOMS], "", ""),
    ("functionary_v31", "two", '<function=set_lamp>{"room": "hall"}</function><function=list_rooms>{}</function>', [lamp("hall"), ROOMS], "", ""),
    ("nemotron_nano_v2", "typed", '<TOOLCALL>[{"name": "save_note", "arguments": {"text": "a ] b"}}]</TOOLCALL>', [note("a ] b")], "", ""),
    ("apertus", "two", '<|tools_prefix|>[{"set_lamp": {"room": "hall"}}, {"list_rooms": {}}]<|tools_suffix|>', [lamp("hall"), ROOMS], "", ""),
    ("generic_xml", "two", '<tool_call>\n<name>set_lamp</name>\n<arguments>{"room": "hall"}</arguments>\n</tool_call>\n'
     "<tool_call>\n<name>list_rooms</name>\n<arguments>{}</arguments>\n</tool_call>", [lamp("hall"), ROOMS], "", ""),
    ("anthropic_xml", "typed", '<function_calls>\n<invoke name="book_table">\n<parameter name="place">Noma</parameter>\n<parameter name="guests">8</parameter>\n</invoke>\n</function_calls>',
     [table("Noma", 8)], "", ""),
    ("xlam", "two", '[{"name": "set_lamp", "arguments": {"room": "hall"}}, {"name": "list_rooms", "arguments": {}}]', [lamp("hall"), ROOMS], "", ""),
    ("solar_open2", "typed", "<|tool_call:start|>book_table\n<|tool_arg:start|>place<|tool_arg:value|>Noma<|tool_arg:end|>\n"
     "<|tool_arg:start|>guests<|tool_arg:value|>8<|tool_arg:end|>\n<|tool_call:end|>", [table("Noma", 8)], "", ""),
    ("solar_open2", "two", "I light it.\n<|tool_call:start|>set_lamp\n<|tool_arg:start|>room<|tool_arg:value|>hall<|tool_arg:end|>\n<|tool_call:end|>\n"
     "<|tool_call:start|>list_rooms\n<|tool_call:end|>", [lamp("hall"), ROOMS], "I light it.\n", ""),
    ("pangu", "two", '<|tool_call_start|>[{"name": "set_lamp", "arguments": {"room": "hall"}}, {"name": "list_rooms", "arguments": {}}]<|tool_call_end|>',
     [lamp("hall"), ROOMS], "", ""),
    ("pangu", "unnamed_tokens", '[unused11][{"name": "list_rooms", "arguments": {}}][unused12]', [ROOMS], "", ""),
    ("step_audio2", "two", '<tool_call>function\nset_lamp\n{"room": "hall"}</tool_call><tool_call>function\nlist_rooms\n{}</tool_call>',
     [lamp("hall"), ROOMS], "", ""),
    ("rwkv", "typed", 'Let me look.\n\n**Tool Call:**\n```json\n{"name": "book_table", "arguments": {"place": "Noma", "guests": 8}}\n```',
     [table("Noma", 8)], "Let me look.\n\n", ""),
    ("hyperclovax", "two", ' -> tool/function_call\n[{"name": "set_lamp", "arguments": {"room": "hall"}}, {"name": "list_rooms", "arguments": {}}]',
     [lamp("hall"), ROOMS], "", ""),
    ("hyperclovax", "reasoning", '/think\nThe hall is dark.<|im_end|>\n<|im_start|>assistant -> tool/function_call\n'
     '[{"name": "set_lamp", "arguments": {"room": "hall"}}]', [lamp("hall")], "", "The hall is dark."),
    ("iquest_coder_v2", "two", "<iquestcoder_tool_call>set_lamp<arg_key>room</arg_key><arg_value>hall</arg_value></iquestcoder_tool_call>\n"
     "<iquestcoder_tool_call>list_rooms</iquestcoder_tool_call>", [lamp("hall"), ROOMS], "", ""),
]


def rows():
    for format, name, text, calls, content, reasoning in CASES:
        yield {"id": f"own/{format}/{name}", "set": "generated", "format": format, "scenario": name, "tools": TOOLS, "text": text, "expected": {
            "content": content, "reasoning": reasoning, "tool_calls": [{"name": name, "arguments": arguments} for name, arguments in calls]}}
