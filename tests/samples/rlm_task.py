"""Three tasks over a long text for recursive models, and the script that plays both models: the root model, which sees the text only
through its REPL, and the sub-model, which alone knows what is a fruit and what is a tool. Written for Tenon."""

import itertools
import json
import random
import re

KINDS = {
    "pear": "fruit",
    "fig": "fruit",
    "quince": "fruit",
    "saw": "tool",
    "file": "tool",
    "chisel": "tool",
    "oboe": "instrument",
    "lute": "instrument",
}
NAMES = ["Ada", "Ben", "Cleo", "Dov", "Eve", "Finn", "Gia", "Hugo", "Ines", "Jan", "Kim", "Leo"]
TOWNS = ["Bergen", "Cork", "Delft"]


def make(seed=5):
    """By name: the question, the text, and the right answer."""
    dice = random.Random(seed)
    bought = [(dice.choice(NAMES), dice.choice(list(KINDS))) for _ in range(20_000)]
    diary = "\n".join(
        f"Day {day}: {name} bought a {thing}." for day, (name, thing) in enumerate(bought)
    )
    counts = {
        kind: sum(KINDS[thing] == kind for _, thing in bought) for kind in set(KINDS.values())
    }
    haystack = [
        f"Locker {number} holds {dice.randrange(10**6):06} and nothing else."
        for number in range(100_000)
    ]
    code = f"{dice.randrange(10**8):08}"
    haystack.insert(
        dice.randrange(len(haystack)),
        f"The spare key of the boathouse lies in the drawer marked {code}.",
    )
    homes = [(name, dice.choice(TOWNS)) for name in NAMES]
    neighbours = [
        f"{one} and {other}"
        for (one, here), (other, there) in itertools.combinations(homes, 2)
        if here == there
    ]
    letters = "\n".join(
        f"{name} writes: I have moved to {town}, " + "it rains, " * 400 for name, town in homes
    )
    return {
        "tally": ("How many of each kind were bought?", diary, counts),
        "find": ("Which drawer has the spare key?", "\n".join(haystack), code),
        "pairs": ("Who lives in the same town as whom?", letters, neighbours),
    }


TURNS = {
    "tally": [
        "lines = context.split('\\n')\nparts = ['\\n'.join(lines[at:at + 1500]) for at in range(0, len(lines), 1500)]\nprint(len(parts))",
        "import json\nsaid = llm_query_batched([f'COUNT {n}\\n{part}' for n, part in enumerate(parts)])\n"
        "said = [one if one.startswith('{') else llm_query(f'COUNT {n}\\n{parts[n]}') for n, one in enumerate(said)]\n"
        "total = {}\nfor one in said:\n    for kind, count in json.loads(one).items():\n        total[kind] = total.get(kind, 0) + count\nprint(total)",
        "result = json.dumps(total)",
    ],
    "find": [
        "print(type(context).__name__, len(context))",
        "import re\nfound = [line for line in context.split('\\n') if 'key' in line]\nprint(found)",
        "result = llm_query('DRAWER\\n' + found[0])\nif not result.isdigit():\n    result = llm_query('DRAWER\\n' + found[0])",
    ],
    "pairs": [
        "letters = context.split('\\n')\nprint(len(letters))",
        "towns = llm_query_batched(['TOWN\\n' + letter for letter in letters])\n"
        "towns = [town if town.isalpha() else llm_query('TOWN\\n' + letters[n]) for n, town in enumerate(towns)]\n"
        "import itertools\nwho = [letter.split()[0] for letter in letters]\n"
        "pairs = [f'{a} and {b}' for (a, x), (b, y) in itertools.combinations(zip(who, towns), 2) if x == y]\nprint(len(pairs))",
        "result = '\\n'.join(pairs)",
    ],
}


def root(task, protocol, turn, messages):
    """`protocol`: how the answer is given, by the variable `answer` or by FINAL_VAR."""
    turns = TURNS[task]
    if turn < len(turns):
        code = turns[turn]
        if turn == len(turns) - 1 and protocol == "answer":
            code += "\nanswer['content'] = result\nanswer['ready'] = True"
        return f"```repl\n{code}\n```"
    return "FINAL_VAR(result)"


def sub(prompt):
    head, _, text = prompt.partition("\n")
    if head == "DRAWER":
        return re.search(r"marked (\d+)", text).group(1)
    if head == "TOWN":
        return re.search(r"moved to (\w+)", text).group(1)
    counts = {}
    for thing in re.findall(r"bought a (\w+)", text):
        counts[KINDS[thing]] = counts.get(KINDS[thing], 0) + 1
    return json.dumps(counts)


def is_right(wanted, answer):
    if isinstance(wanted, dict):
        return json.loads(answer) == wanted
    return (sorted(answer.split("\n")) if isinstance(wanted, list) else answer) == (
        sorted(wanted) if isinstance(wanted, list) else wanted
    )
