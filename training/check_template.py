"""Holds the chat template of the file against the training text, conversation by conversation.

python check_template.py
"""

import json
import random

import chatml
import generator
import jinja2


def environment():
    """Jinja as chat template engines set it up, with a `tojson` that keeps the order of keys."""
    made = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    made.filters["tojson"] = chatml.dumps
    return made


def main(count=400):
    template = environment().from_string(chatml.CHAT_TEMPLATE)
    r = random.Random(3)
    checked = 0
    for _ in range(count):
        tools, system, talks = generator.tree(r)
        for messages in talks:
            turns = ([{"role": "system", "content": system}] if system else []) + messages
            wanted = chatml.render_prefix(tools, system) + "".join(
                t for t, _ in chatml.render_messages(messages)
            )
            assert (
                template.render(messages=turns, tools=tools, add_generation_prompt=False) == wanted
            ), wanted
            loose = json.loads(json.dumps(turns))
            for turn in loose:
                turn["content"] = (
                    [{"type": "text", "text": turn["content"]}] if turn["content"] else None
                )
                for call in turn.get("tool_calls", []):
                    call["function"]["arguments"] = chatml.dumps(call["function"]["arguments"])
            prompt = template.render(messages=loose, tools=tools, add_generation_prompt=True)
            assert prompt == wanted + "<|im_start|>assistant\n", prompt
            checked += 1
    print("template equals training text in %d conversations" % checked)


if __name__ == "__main__":
    main()
