"""Tools and requests that training never sees.

    python heldout.py      # checks that they are new

The nouns and keys below occur in none of the generator's word lists, which
`check_disjoint` asserts. `conversations` builds turns from them with the
generator's own sentences, so only names and nouns are new; `HAND_WRITTEN` is
written by hand, wording included.
"""

import random
import re

import generator
import intents
import values

NOUNS = """museum podcast parcel parking tide vaccine orchard telescope chess sauna pollen tattoo gym ferry beehive
kayak pottery lighthouse vineyard aquarium waterfall raffle""".split()
KEYS = {
    "city": "harbor suburb", "person": "sculptor curator", "code": "voucher plate", "small_int": "laps chapters dose",
    "big_int": "hash pin", "date": "checkup expiry", "clock": "sunrise closing", "phrase": "cuisine theme",
    "title": "episode exhibit", "email": "mailbox", "path": "manuscript", "number": "altitude dosage", "one_word": "species breed",
}


def tools_of(r):
    nouns = r.sample(NOUNS, r.choice((2, 3)))
    return [generator.made_up_tool(r, False, noun, (), NOUNS, KEYS) for noun in nouns]


def conversations(kind, count, seed):
    """`count` of (tool declarations, conversation that ends in the reply to judge)."""
    r = random.Random("%s/%d" % (kind, seed))
    made = []
    while len(made) < count:
        tools = tools_of(r)
        declared = [tool.declare(r, False) for tool in tools]
        if len({t.name for t in tools}) < len(tools):
            continue
        if kind == "call":
            found = generator.single_call(r, tools)
        elif kind == "parallel":
            found = generator.same_tool_twice(r, tools)
        elif kind == "ask":
            found = generator.ask_for_missing(r, tools)
            found = found and (found[0][:2], None)
        elif kind == "final":
            messages, calls = generator.single_call(r, tools)
            found = (messages + generator.finish(r, calls), calls)
        else:
            others = [n for n in NOUNS if all(n not in t.topic for t in tools)]
            other = generator.made_up_tool(r, False, r.choice(others), (), NOUNS, KEYS)
            other.declare(r, False)
            found = ([generator.user(generator.request(r, other)[0]), generator.says(generator.NO_TOOL)], None)
        if found:
            made.append((declared, found[0]))
    return made


def probes(count):
    """Calls that a training run checks itself on, the same for every run."""
    return conversations("call", count, 12345)


def tool(name, description, required=(), **properties):
    schema = {key: (value if isinstance(value, dict) else {"type": value}) for key, value in properties.items()}
    parameters = {"type": "object", "properties": schema, "required": list(required or properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def text(description):
    return {"type": "string", "description": description}


PODCAST = tool("find_podcast", "Find a podcast episode about a theme", theme="string")
TIDE = tool("tide_table", "Times of high tide in a harbor", harbor=text("Name of the harbor"))
PARCEL = tool("parcel_status", "Status of a parcel", voucher=text("Code of the parcel"))
PARKING = tool("reserve_parking", "Reserve a parking space", plate=text("Number plate of the car"), suburb="string")
MUSEUM = tool("museum_hours", "Opening hours of a museum", museum=text("Name of the museum"))
CHESS = tool("play_chess_move", "Make a chess move", move="string")
SAUNA = tool("heat_sauna", "Heat the sauna", dose={"type": "integer", "description": "Degrees"})
FERRY = tool("book_ferry", "Book a ferry between two harbors", from_harbor="string", to_harbor="string")
POLLEN = tool("pollen_report", "Pollen count in a suburb", suburb="string")
VACCINE = tool("schedule_vaccine", "Schedule a vaccine for a patient", species=text("Name of the patient"), checkup=text("Date"))

# (tools, request, expected calls; None: no call is right)
HAND_WRITTEN = [
    ([PODCAST, TIDE], "I'd like to hear a podcast on volcano birds", [("find_podcast", {"theme": "volcano birds"})]),
    ([PODCAST, TIDE], "When is high tide in Zadar?", [("tide_table", {"harbor": "Zadar"})]),
    ([TIDE], "tide times for Whitby please", [("tide_table", {"harbor": "Whitby"})]),
    ([PARCEL, PARKING], "Where is my parcel XK-20419?", [("parcel_status", {"voucher": "XK-20419"})]),
    ([PARCEL, MUSEUM], "Has the parcel 77120-QL arrived?", [("parcel_status", {"voucher": "77120-QL"})]),
    ([MUSEUM, CHESS], "How long is the Prado museum open?", [("museum_hours", {"museum": "Prado"})]),
    ([MUSEUM], "Opening hours of the museum Louvre", [("museum_hours", {"museum": "Louvre"})]),
    ([CHESS, SAUNA], "My next chess move is Nf3", [("play_chess_move", {"move": "Nf3"})]),
    ([CHESS, PODCAST], "Play e4 on the chess board", [("play_chess_move", {"move": "e4"})]),
    ([SAUNA, TIDE], "Heat the sauna to 85 degrees", [("heat_sauna", {"dose": 85})]),
    ([SAUNA], "Sauna at 72, please", [("heat_sauna", {"dose": 72})]),
    ([FERRY, TIDE], "Book a ferry from Split to Ancona", [("book_ferry", {"from_harbor": "Split", "to_harbor": "Ancona"})]),
    ([FERRY, MUSEUM], "I need a ferry from Piraeus to Naxos", [("book_ferry", {"from_harbor": "Piraeus", "to_harbor": "Naxos"})]),
    ([POLLEN, PARCEL], "How much pollen is there in Brixton?", [("pollen_report", {"suburb": "Brixton"})]),
    ([POLLEN], "pollen count Altona", [("pollen_report", {"suburb": "Altona"})]),
    ([PARKING, SAUNA], "Reserve parking in Neukölln for the car B-MX 4411", [("reserve_parking", {"plate": "B-MX 4411", "suburb": "Neukölln"})]),
    ([VACCINE, POLLEN], "Schedule a vaccine for Ottokar on March 3", [("schedule_vaccine", {"species": "Ottokar", "checkup": "March 3"})]),
    ([TIDE], "High tide in Zadar and in Whitby?", [("tide_table", {"harbor": "Zadar"}), ("tide_table", {"harbor": "Whitby"})]),
    ([POLLEN, MUSEUM], "Pollen in Brixton and Altona", [("pollen_report", {"suburb": "Brixton"}), ("pollen_report", {"suburb": "Altona"})]),
    ([PARCEL, MUSEUM], "Set a timer for ten minutes", None),
    ([CHESS, POLLEN], "What is 17 times 3?", None),
    ([TIDE, FERRY], "Write an email to my boss", None),
    ([MUSEUM], "Hello there!", None),
]


def check_disjoint():
    """No held-out noun or key is a word of the generator's lists."""
    words = set()
    for module in (generator, intents, values):
        with open(module.__file__, encoding="utf-8") as source:
            words |= set(re.findall(r"[a-z]+", source.read().lower()))
    held = set(NOUNS) | {key for keys in KEYS.values() for key in keys.split()}
    assert not held & words, held & words


if __name__ == "__main__":
    check_disjoint()
    print("%d nouns and %d keys are new to the generator" % (len(NOUNS), sum(len(k.split()) for k in KEYS.values())))
