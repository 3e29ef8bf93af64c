"""Synthetic conversations: tools, requests that need them, and the right replies.

    python generator.py --count 3        # print samples as the model sees them

A sample is a tree: one prefix (system line, tools) and a few conversations
that all start from it. About half of the tools come from `intents.py`, half
are made up here from a verb and a noun. In most samples names and keys are
randomised, so that recalling a name never pays and copying it does.
"""

import argparse
import random

import chatml
from intents import INTENTS, clash
from values import JSON_TYPES, MAKERS, CITIES, COUNTRIES, pseudo, word

NO_TOOL = "Sorry, I have no tool for that."

VERBS = {
    "get": ("get fetch show lookup retrieve read describe", "Get|Show|Look up|Fetch|Return|Read", "Show me the {}|What is the {}?|Get the {}|I need the {}|Tell me the {}|Give me the {}|Look up the {}|Fetch the {}|What {} do we have?|Can you show the {}?|Where is the {}?|I want to see the {}|What do we know about the {}?|Do you have the {}?|{} please|How about the {}"),
    "create": ("create add new make register insert", "Create|Add|Make|Register|Insert", "Create a {}|Add a new {}|Make a {}|I want a new {}|Please set up a {}|Register a {}|We need another {}|New {}|I need a new {}|Could you make me a {}?|Let us have a new {}|There should be a new {}"),
    "delete": ("delete remove cancel drop clear erase", "Delete|Remove|Cancel|Drop|Erase", "Delete the {}|Remove the {}|Get rid of the {}|Cancel the {}|Please drop the {}|Erase the {}|I do not need the {} any more|Throw away the {}|The {} has to go|Take the {} away|We no longer need the {}"),
    "update": ("update change edit modify set adjust", "Update|Change|Edit|Modify|Adjust", "Update the {}|Change the {}|Edit the {}|Modify the {}|Please adjust the {}|Set the {}|The {} should be changed|The {} is wrong, correct it|Make changes to the {}"),
    "list": ("list search find query browse filter", "List|Search|Find|Query|Browse", "List all {}s|Find {}s|Search for {}s|Which {}s are there?|Show all {}s|Browse the {}s|Look for a {}|Find a {}|Are there any {}s?|What {}s do you have?|I am looking for a {}|I would like to see some {}s|Give me a list of {}s"),
    "send": ("send share forward deliver post publish", "Send|Share|Forward|Deliver|Publish", "Send the {}|Share the {}|Forward the {}|Deliver a {}|Post the {}|Publish the {}|Let them have the {}|The {} has to go out|Pass on the {}"),
    "start": ("start run launch open begin enable", "Start|Run|Launch|Open|Enable", "Start the {}|Run the {}|Launch the {}|Begin the {}|Please open the {}|Enable the {}|Turn the {} on|Get the {} going|Let the {} run|I want to use the {}|Switch on the {}"),
    "stop": ("stop close halt end pause disable", "Stop|Close|Halt|Pause|Disable", "Stop the {}|Close the {}|Halt the {}|End the {}|Pause the {}|Disable the {}|Turn the {} off|The {} should stop|No more {}|Switch off the {}|Shut down the {}"),
    "check": ("check verify validate test inspect", "Check|Verify|Validate|Test|Inspect", "Check the {}|Is the {} all right?|Verify the {}|Test the {}|Inspect the {} please|Validate the {}|Does the {} work?|Has the {} arrived?|Can you have a look at the {}?|Is anything wrong with the {}?|What about the {}?"),
    "calculate": ("calculate compute estimate predict", "Calculate|Compute|Estimate|Predict", "Calculate the {}|Compute the {}|How large is the {}?|Estimate the {}|What will the {} be?|Predict the {}|What does the {} come to?|How much {} will there be?|How much {} is there?|Work out the {}|I need a figure for the {}"),
    "book": ("book reserve order buy rent request", "Book|Reserve|Order|Buy|Rent", "Book a {}|Reserve a {}|Order a {}|Buy a {}|I want to rent a {}|I would like a {}|Get me a {}|I'd like to have a {}|Could I get a {}?|I need a {}|A {} please|We need a {}"),
}
# Tools that are named after what they tell: a noun and one of these.
ASPECTS = "status report table hours price history details level schedule location rules size contents count".split()
ASPECT_REQUESTS = """What is the {a} of the {n}?|{n} {a}|{n} {a} please|Tell me the {a} of the {n}|I need the {n} {a}|What about the {n} {a}?
Do you know the {a} of the {n}?|How is the {n} {a}?|Could you look up the {n} {a}?|I wonder about the {a} of the {n}""".replace("\n", "|").split("|")
NOUNS = """invoice report ticket user account project meeting order customer document image photo video playlist song album
article page comment post channel group team member employee salary contract payment refund discount coupon product price
warehouse shipment package delivery truck vehicle car engine tire route driver passenger train bus seat station airport
flight luggage hotel room guest building elevator door window camera sensor alarm device printer scanner router server
database table backup log container cluster node pod deployment pipeline build release branch commit repository issue
bug test script job task workflow schedule calendar event appointment reminder note message mail letter contact address
phone call voicemail subscription license key token password certificate domain website link form survey question answer
quiz exam course lesson teacher student class grade school book library loan author chapter poem story newspaper magazine
movie theater concert festival artist band instrument lyrics radio station speaker headphone microphone lamp light heater
fan boiler oven fridge dishwasher washer vacuum robot drone battery charger solar panel meter bill tax budget expense
income balance transfer card loan mortgage insurance claim policy stock bond fund portfolio trade market auction bid
patient doctor nurse hospital clinic prescription medicine allergy diagnosis treatment symptom diet meal breakfast lunch
dinner menu dish ingredient pizza coffee tea wine restaurant kitchen table garden plant tree flower seed soil fertilizer
farm field crop tractor cow horse sheep chicken egg milk cheese forest river lake mountain trail map compass tent camp
boat ship harbour anchor sail bridge road tunnel traffic signal crossing bicycle helmet wheel chain engine fuel oil gas
water pressure humidity rainfall wind storm earthquake volcano glacier planet satellite rocket orbit laser molecule atom
protein gene cell virus bacteria experiment sample measurement laboratory microscope theorem equation matrix vector graph
polygon circle triangle color palette font logo icon banner poster canvas brush sculpture painting gallery exhibition
statue castle palace temple church village district region country border passport visa embassy election candidate vote
law court judge lawyer witness crime police fire rescue ambulance soldier uniform medal game player score level quest
weapon armor dragon wizard spell potion treasure castle league match goal referee stadium ticket jersey ball racket
dance costume wedding birthday gift candle balloon cake toy doll puzzle blanket pillow mattress sofa chair shelf drawer
mirror carpet curtain paint hammer screw drill ladder rope bucket shovel brick concrete pipe cable wire switch fuse
valve pump filter motor gear bearing spring magnet lens mirror prism fiber fabric wool cotton leather shirt jacket shoe
hat glove ring necklace watch wallet bag umbrella""".split()
TOPICS = """sales marketing finance support warehouse school hospital city garden music travel factory office shop library
sports energy security network research""".split()
KEYS = {
    "city": "city location place town destination origin branch site", "person": "name person user customer owner member author employee patient guest",
    "email": "email email_address contact_email recipient", "path": "path file filename source target output", "folder": "folder directory dir path",
    "url": "url link address website endpoint", "small_int": "count limit number amount size level days hours minutes quantity age width height year rank",
    "big_int": "id number serial account_number population code total", "decimal": "price amount weight length rate score distance value",
    "number": "value number total amount limit threshold", "date": "date day start_date end_date deadline when due", "clock": "time start end hour at",
    "phrase": "query topic keywords text subject description search", "title": "title name label heading caption", "task": "task action todo job",
    "sentence": "text message comment body content note reason", "code": "id code number reference key sku identifier serial", "phone": "phone phone_number mobile number",
    "currency": "currency unit", "language": "language lang", "flag": "active enabled verbose public urgent force recursive archived",
    "one_word": "name type category tag label kind color status format", "room": "room area place",
}
KIND_TEXT = {
    "city": "city|town|place", "person": "person|name|full name", "email": "email address|mail address", "path": "file|path", "folder": "folder|directory",
    "url": "URL|link", "small_int": "number|whole number|count", "big_int": "number|id number", "decimal": "number|decimal number", "number": "number|value",
    "date": "date|day", "clock": "time|time of day", "phrase": "words|topic|search text", "title": "title|name", "task": "thing to do", "sentence": "text|sentence",
    "code": "code|identifier", "phone": "phone number", "currency": "currency", "language": "language", "flag": "yes or no|switch", "one_word": "word|kind", "room": "room",
}
# Tools that are tried first, so they are drawn more often.
COMMON = [i for i in INTENTS if i.names[0] in ("get_weather", "multiply", "add", "get_time", "read_file", "search_web", "create_reminder", "send_email")]
CUES = {  # words that lead to a value when no other parameter of the tool is of its kind
    "city": ("in {}", "in {}", "at {}"), "person": ("for {}", "of {}"), "email": ("to {}", "for {}"), "path": ("from {}", "in {}"), "folder": ("in {}", "from {}"),
    "url": ("at {}", "from {}"), "date": ("on {}", "for {}"), "clock": ("at {}",), "phrase": ("about {}", "on {}", "about \"{}\""), "title": ("called {}", "named {}", "called \"{}\""),
    "task": ("to {}",), "sentence": ("saying \"{}\"", "with the text \"{}\"", "with the text '{}'"), "code": ("{}", "number {}"), "phone": ("for {}", "at {}"),
    "currency": ("in {}",), "language": ("in {}",), "room": ("in the {}",),
}
LABELLED = ("with {k} {v}", "with {k} {v}", "using {k} {v}", "{k} {v}", "{k}: {v}", "where {k} is {v}", "set {k} to {v}", "with {v} as {k}", "the {k} is {v}", "and {k} = {v}")
OPENERS = ["", "", "", "", "", "", "", "", "Please ", "please ", "Hi, ", "Hello! ", "Hey, ", "Can you help? ", "I have a question. ", "Ok, ", "Now "]
SYSTEM_LINES = ["You are a helpful assistant.", "You are a helpful assistant.", "Answer briefly.", "You are Tenon.", "You are a friendly helper. Use the tools.",
                "Be short and precise.", "You help users with their tasks.", "Today is {}.", "You work for {}.", "The user is {}.", "Your name is {}."]
CHAT = """Hi|Hello! How can I help you?
Hello|Hello! How can I help you?
Hey there|Hello! How can I help you?
Good morning|Good morning! How can I help you?
Good evening|Good evening! How can I help you?
How are you?|I am fine, thank you. How can I help you?
How is it going?|I am fine, thank you. How can I help you?
Who are you?|I am Tenon, a tiny model that calls tools.
What are you?|I am Tenon, a tiny model that calls tools.
What is your name?|I am Tenon, a tiny model that calls tools.
Introduce yourself|I am Tenon, a tiny model that calls tools.
What can you do?|I can call the tools that you give me.
How can you help me?|I can call the tools that you give me.
Thanks|You are welcome!
Thank you very much|You are welcome!
Great, thanks|You are welcome!
Bye|Goodbye!
See you later|Goodbye!
Good night|Good night!
Ok|All right.
That is all|All right.
Nice|All right.
Tell me a joke|Why did the tool call fail? It had no arguments.
Are you a robot?|Yes, I am a small language model.
Are you human?|No, I am a small language model.
Say hello|Hello!
Say hi|Hello!
Test|I am here.
Are you there?|I am here.
Yes|All right.
No|All right.
Sorry|No problem.
Help|I can call the tools that you give me.""".split("\n")
CAPITALS = dict(line.split(":") for line in """France:Paris Germany:Berlin Italy:Rome Spain:Madrid Portugal:Lisbon Norway:Oslo Sweden:Stockholm Poland:Warsaw
Greece:Athens Egypt:Cairo Kenya:Nairobi Japan:Tokyo Peru:Lima Austria:Vienna Ireland:Dublin Finland:Helsinki Denmark:Copenhagen
Hungary:Budapest China:Beijing England:London""".split())


def maybe(r, p):
    return r.random() < p


def respell(r, name):
    """The same name in another convention."""
    words = name.split("_")
    p = r.random()
    if p < .72:
        return name
    if p < .86:
        return words[0] + "".join(w.capitalize() for w in words[1:])
    if p < .95:
        return "-".join(words)
    return "".join(w.capitalize() for w in words)


def rename(r, name):
    """A name that cannot be recalled: affixes keep a hint, made-up words do not."""
    p = r.random()
    extra = pseudo(r) if maybe(r, .6) else r.choice(NOUNS)
    if p < .35:
        return name + "_" + extra
    if p < .65:
        return extra + "_" + name
    if p < .75:
        return "%s_v%d" % (name, r.randrange(1, 10))
    if p < .8:
        return "%s__%s" % (extra, name)
    return None


def scramble(r):
    """A name without any meaning."""
    return "_".join(pseudo(r) if maybe(r, .65) else r.choice(NOUNS) for _ in range(r.choice((1, 2, 2))))


class Slot:
    """A parameter of one tool: its key, kind, schema and the words of the request that give it."""

    def __init__(self, key, kind, required, tails=None, description=""):
        self.key, self.kind, self.required, self.tails, self.description = key, kind, required, tails, description
        self.enum = kind[5:].split(",") if kind.startswith("enum:") else None
        self.as_text = False

    def make(self, r):
        if self.enum:
            value = r.choice(self.enum)
            return value, value
        text, value = MAKERS[self.kind](r)
        return text, (text if self.as_text else value)

    def schema(self, r):
        kind = "string" if self.as_text else JSON_TYPES.get(self.kind, "string")
        fields = [("type", kind)]
        if self.description:
            fields.append(("description", self.description))
        if self.enum:
            fields.append(("enum", self.enum))
        if maybe(r, .05):
            r.shuffle(fields)
        return dict(fields)


class Tool:
    """A tool as it is declared, with what it takes to write requests for it."""

    def __init__(self, topic, name, description, slots, requests, ask, result, done, bare):
        self.topic, self.name, self.description, self.slots = topic, name, description, slots
        self.requests, self.ask, self.result, self.done = requests, ask, result, done
        self.bare = bare  # requests are words to which the cue of each slot is added

    def declare(self, r, sort_keys):
        properties = [(slot.key, slot.schema(r)) for slot in self.slots]
        if maybe(r, .3):
            r.shuffle(properties)
        parameters = [("type", "object"), ("properties", dict(properties))]
        required = [key for key, _ in properties if any(s.key == key and s.required for s in self.slots)]
        if required or maybe(r, .5):
            parameters.append(("required", required))
        if maybe(r, .03):
            parameters.append(("additionalProperties", False))
        if maybe(r, .05):
            r.shuffle(parameters)
        fields = [("name", self.name)]
        if self.description:
            fields.append(("description", self.description))
        fields.append(("parameters", dict(parameters)))
        if maybe(r, .03):
            fields.append(("strict", True))
        if maybe(r, .05):
            r.shuffle(fields)
        function = dict(fields)
        if sort_keys:
            function = sort_deep(function)
        self.order = list(function["parameters"]["properties"])
        return {"type": "function", "function": function}

    def call(self, values):
        """The call with arguments in the order of the declaration."""
        arguments = {key: values[key] for key in self.order if key in values}
        return {"type": "function", "function": {"name": self.name, "arguments": arguments}}


def sort_deep(value):
    if isinstance(value, dict):
        return {key: sort_deep(value[key]) for key in sorted(value)}
    return value


def usual(r, names):
    """One of the names; the first is the commonest."""
    return names[0] if maybe(r, .3) else r.choice(names)


def everyday_tool(r, intent, randomise):
    """A tool of `intents.py`, renamed if `randomise`."""
    name, description = usual(r, intent.names), r.choice(intent.descriptions)
    slots, used = [], set()
    for param in intent.params:
        if param.tails and maybe(r, .35):
            continue
        key, text = usual(r, param.keys), r.choice(param.descriptions) if maybe(r, .55) else ""
        while key in used:
            key = r.choice(param.keys)
        if randomise and maybe(r, .45):
            key, text = new_key(r, key), text or r.choice(param.descriptions)
        used.add(key)
        slots.append(Slot(key, param.kind, not param.tails, param.tails, text))
    name = respell(r, name)
    if randomise:
        name = rename(r, name) or scramble(r)
    elif maybe(r, .12):
        description = ""
    loosen(r, slots)
    return Tool(intent.topic, name, description, slots, intent.requests, intent.ask, intent.result, intent.done, False)


def new_key(r, key):
    p = r.random()
    if p < .45:
        return pseudo(r)
    if p < .65:
        return r.choice(NOUNS)
    if p < .85:
        return "%s_%s" % ((r.choice(NOUNS) if maybe(r, .5) else pseudo(r)), key)
    return "%s_%s" % (key, r.choice(NOUNS) if maybe(r, .5) else pseudo(r))


def loosen(r, slots):
    """Some declare numbers as strings."""
    for slot in slots:
        slot.as_text = slot.kind in JSON_TYPES and slot.kind != "flag" and maybe(r, .02)


def made_up_tool(r, randomise, noun=None, avoid=(), nouns=NOUNS, keys=KEYS):
    """A tool of a verb and a noun, or of a noun and an aspect; `noun` and `avoid` make near twins."""
    verb = r.choice([v for v in VERBS if v not in avoid])
    aspect = r.choice(ASPECTS) if "get" not in avoid and maybe(r, .18) else ""
    verb = "get" if aspect else verb
    names, descriptions, requests = (text.split("|") for text in VERBS[verb])
    if noun is None:
        noun = pseudo(r) if maybe(r, .35 if randomise else .2) else r.choice(nouns)
        if maybe(r, .15):
            noun = r.choice(nouns) + " " + noun
    slots, used = [], set()
    for kind in r.sample(list(keys), r.choice((0, 1, 1, 1, 2, 2, 2, 3))):
        if maybe(r, .12):
            options = [pseudo(r) if maybe(r, .3) else word(r) for _ in range(r.choice((2, 3, 3, 4)))]
            kind = "enum:" + ",".join(dict.fromkeys(options))
            key, text = r.choice("mode type kind style format order status category".split()), ""
        else:
            key = r.choice(keys[kind].split())
            text = describe(r, kind, noun, key) if maybe(r, .4) else ""
        if randomise and maybe(r, .4):
            key = new_key(r, key)
            if not kind.startswith("enum"):
                text = text or describe(r, kind, noun, key)
        if key in used:
            continue
        used.add(key)
        slots.append(Slot(key, kind, maybe(r, .75), None, text))
    loosen(r, slots)
    plural = "s" if verb == "list" else ""
    name = respell(r, "%s_%s%s" % (r.choice(names[0].split()), noun.replace(" ", "_"), plural))
    description = "%s %s%s%s" % (r.choice(descriptions), r.choice(("the ", "a ", "")) if not plural else "", noun, plural)
    if aspect:
        name = respell(r, "%s_%s" % (noun.replace(" ", "_"), aspect))
        description = r.choice(("{A} of a {n}", "The {a} of the {n}", "{A} of the {n}", "Get the {n} {a}")).format(A=aspect.capitalize(), a=aspect, n=noun)
        requests = [text.format(a=aspect, n="{}") for text in ASPECT_REQUESTS]
    description += r.choice(("", "", ".", " of the " + r.choice(TOPICS), " in the %s system." % r.choice(TOPICS)))
    if randomise:
        name = rename(r, name) or scramble(r)
    elif maybe(r, .3):
        description = ""
    tool = Tool(noun, name, description, slots, [q.format(noun) for q in requests], None, None, None, True)
    tool.verb = verb
    return tool


def describe(r, kind, noun, key):
    text = r.choice(KIND_TEXT[kind].split("|"))
    return r.choice(("The %s of the %s" % (text, noun), "The " + text, text.capitalize(), "%s of the %s" % (text.capitalize(), noun),
                     "The %s to use." % text, "Which " + text))


def cue(r, tool, slot, text):
    """Words that give `text` to `slot`."""
    alone = sum(s.kind == slot.kind for s in tool.slots) == 1
    label = slot.key.replace("_", " ") if maybe(r, .8) else slot.key
    if slot.kind in CUES and alone and maybe(r, .6):
        return r.choice(CUES[slot.kind]).format(text)
    if slot.enum and maybe(r, .35):
        return r.choice(("{}", "in {} {}".format("{}", label), "as {}")).format(text)
    if slot.kind == "flag" and maybe(r, .3):
        return "%s %s" % (label, "on" if text == "true" else "off") if text in ("true", "false") else text
    return r.choice(LABELLED).format(k=label, v=text)


def request(r, tool, missing=None, fixed=None):
    """A request for the tool and the argument values; `missing` is a required slot left out."""
    values, texts = {}, []
    for slot in tool.slots:
        text, value = (fixed or {}).get(slot.key) or slot.make(r)
        texts.append(text)
        values[slot.key] = value
    if tool.bare:
        words = r.choice(tool.requests)
        if maybe(r, .2):
            words = words.replace(" the ", r.choice((" my ", " our ", " this ", " that ")), 1)
        end = "?" if words.endswith("?") else ""
        words = words.rstrip("?")
        for slot, text in r.sample(list(zip(tool.slots, texts)), len(tool.slots)):
            if slot is missing or not slot.required and maybe(r, .5):
                del values[slot.key]
            else:
                words += r.choice((" ", " ", " ", ", ")) + cue(r, tool, slot, text)
        words += end if maybe(r, .8) else ""
    else:
        index = tool.slots.index(missing) if missing else None
        words = r.choice(tool.ask[index] if missing else tool.requests).format(*texts)
        if missing:
            del values[missing.key]
        stem, end = (words[:-1], words[-1]) if words[-1] in "?." else (words, "")
        for slot, text in zip(tool.slots, texts):
            if slot.tails and missing is None and maybe(r, .55):
                stem += r.choice(slot.tails).format(text)
            elif slot.tails:
                values.pop(slot.key)
        words = stem + end
    return words, values


def polish(r, words):
    """Openers, lower case, missing or added full stops."""
    if maybe(r, .3):
        words = r.choice(OPENERS) + words
    p = r.random()
    if p < .1:
        words = words[0].lower() + words[1:]
    elif p < .16:
        words = words.rstrip("?.")
    elif p < .26 and words[-1].isalnum():
        words += "."
    elif p < .3 and words[-1].isalnum():
        words += r.choice((" please", ", please", " for me", " now", ", thanks"))
    return words


def user(text):
    return {"role": "user", "content": text}


def says(text):
    return {"role": "assistant", "content": text}


def calls(*made):
    return {"role": "assistant", "content": "", "tool_calls": list(made)}


def result_and_sentence(r, tool, values):
    """What the tool returns, and the sentence made of it."""
    p = r.random()
    if p < .06:
        error = r.choice(("not found", "timeout", "permission denied", "no such " + word(r), "%s is invalid" % word(r), phrase_text(r)))
        return chatml.dumps({"error": error}), "That did not work: %s." % error
    if tool.done and p < .76:
        # Most words of a result are any words, or a sentence would be guessed instead of copied.
        kinds = {name: "one_word" if kind.startswith("enum:") and maybe(r, .6) else kind for name, kind in tool.result.items()}
        fields = {name: Slot(name, kind, True).make(r) for name, kind in kinds.items()}
        shown = {name: value for name, (_, value) in fields.items()}
        if maybe(r, .25):  # fields that the sentence does not use
            shown = {**other_fields(r, tool, values), **shown}
        if maybe(r, .4):
            shown = dict(r.sample(list(shown.items()), len(shown)))
        arguments = [shown_value(values[slot.key]) if slot.key in values else None for slot in tool.slots]
        return chatml.dumps(shown), tool.done.format(*arguments, **{k: shown_value(v) for k, v in shown.items()})
    p = r.random()
    if p < .35:
        text = r.choice((phrase_text(r), MAKERS["sentence"](r)[0], "%s: %s" % (word(r), phrase_text(r)), " ".join(word(r) for _ in range(r.randrange(3, 9)))))
        return text, "The result is: " + text
    if p < .5:
        number = MAKERS["number"](r)[0]
        return number, "The result is: " + number
    if p < .6:
        items = [MAKERS[r.choice(("title", "path", "one_word", "person", "code"))](r)[0] for _ in range(r.choice((1, 2, 3, 4)))]
        return chatml.dumps(items), "I found %s." % join(items)
    shown = dict(any_field(r) for _ in range(r.choice((1, 2, 2, 3))))
    sentence = join(["the %s is %s" % (key.replace("_", " "), shown_value(value)) for key, value in shown.items()])
    return chatml.dumps(shown), sentence[0].upper() + sentence[1:] + "."


def any_field(r):
    """A key and a value of a result."""
    kind = r.choice([k for k in KEYS if k not in ("flag", "sentence", "task")])
    key = r.choice(KEYS[kind].split()) if maybe(r, .5) else (r.choice(NOUNS) if maybe(r, .6) else pseudo(r))
    return key, MAKERS[kind](r)[1]


def other_fields(r, tool, values):
    """What a result may hold besides: an argument again, or anything."""
    slots = [s for s in tool.slots if s.key in values]
    if slots and maybe(r, .5):
        slot = r.choice(slots)
        return {slot.key: values[slot.key]}
    return dict(any_field(r) for _ in range(r.choice((1, 1, 2))))


def shown_value(value):
    return value if isinstance(value, str) else chatml.dumps(value)


def phrase_text(r):
    return MAKERS["phrase"](r)[0]


def join(parts):
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def finish(r, made):
    """The tool turns and the final sentence for [(tool, values)]."""
    results = [result_and_sentence(r, tool, values) for tool, values in made]
    return [{"role": "tool", "content": text} for text, _ in results] + [says(" ".join(s for _, s in results))]


def single_call(r, tools):
    tool = r.choice(tools)
    words, values = request(r, tool)
    return [user(polish(r, words)), calls(tool.call(values))], [(tool, values)]


def same_tool_twice(r, tools):
    """"... in Paris and Rome": one request, a call per value; None if no tool suits."""
    suited = [t for t in tools if t.slots and any(s.required and not s.enum and s.kind not in ("flag", "sentence", "task", "phrase") for s in t.slots)]
    if not suited:
        return None
    tool = r.choice(suited)
    slot = r.choice([s for s in tool.slots if s.required and not s.enum and s.kind not in ("flag", "sentence", "task", "phrase")])
    parts = [slot.make(r) for _ in range(r.choice((2, 2, 2, 2, 3)))]
    if len({text for text, _ in parts}) < len(parts):
        return None
    words, values = request(r, tool, fixed={slot.key: (join([text for text, _ in parts]), None)})
    if slot.key not in values:
        return None
    made = [(tool, {**values, slot.key: value}) for _, value in parts]
    return [user(polish(r, words)), calls(*(t.call(v) for t, v in made))], made


def two_requests(r, tools):
    """Two requests in one turn, a call for each."""
    made, texts = [], []
    for tool in r.sample(tools, 2) if len(tools) > 1 else tools * 2:
        words, values = request(r, tool)
        made.append((tool, values))
        texts.append(words)
    first, second = texts
    glue = r.choice((" and ", ". And ", " and also ", ". Also ", ", and then ", " and then ", "; "))
    if glue[0] != ".":
        second = second[0].lower() + second[1:]
    words = first.rstrip("?.") + ("?" if first.endswith("?") and glue.startswith(".") else "") + glue.replace(". ", " " if first.endswith("?") and glue.startswith(".") else ". ") + second
    return [user(polish(r, words)), calls(*(t.call(v) for t, v in made))], made


def ask_for_missing(r, tools):
    """A request without a required value: the model asks for it; None if no tool suits."""
    suited = []
    for tool in tools:
        slots = [s for i, s in enumerate(tool.slots) if s.required and (tool.bare or tool.ask and i in tool.ask)]
        suited += [(tool, slots)] if slots else []
    if not suited:
        return None
    tool, slots = r.choice(suited)
    slot = r.choice(slots)
    words, values = request(r, tool, missing=slot)
    messages = [user(polish(r, words)), says("Please tell me the %s." % slot.key.replace("_", " "))]
    if maybe(r, .4) and not any(s.tails for s in tool.slots):
        text, value = slot.make(r)
        reply = r.choice(("{}", "{}", "The {k} is {}", "Use {}", "{} please", "{k}: {}")).format(text, k=slot.key.replace("_", " "))
        values[slot.key] = value
        return messages + [user(reply), calls(tool.call(values))], [(tool, values)]
    return messages, None


def unsuitable(r, tools):
    """A request that none of the tools serves."""
    for _ in range(20):
        if maybe(r, .55):
            other = everyday_tool(r, r.choice(INTENTS), False)
            if any(not t.bare and clash(other.topic, t.topic) for t in tools):
                continue
        else:
            twin = r.choice(tools)
            near = twin.bare and maybe(r, .12)
            other = made_up_tool(r, False, noun=twin.topic if near else None, avoid=[t.verb for t in tools if t.bare] if near else ())
            if not near and any(t.bare and t.topic == other.topic for t in tools):
                continue
        other.declare(r, False)
        words, _ = request(r, other)
        return [user(polish(r, words)), says(NO_TOOL)]
    return chat(r)


def chat(r):
    if maybe(r, .2):
        country, capital = r.choice(list(CAPITALS.items()))
        return [user(r.choice(("What is the capital of %s?", "Which city is the capital of %s?", "capital of %s")) % country),
                says("The capital of %s is %s." % (country, capital))]
    question, answer = r.choice(CHAT).split("|")
    if maybe(r, .3):
        question = question.lower() if maybe(r, .5) else question + r.choice(("!", ".", " Tenon"))
    return [user(question), says(answer)]


def follow_up(r, tools, made):
    """A second request after the first is answered."""
    tool, values = made[0]
    slots = [s for s in tool.slots if s.key in values and s.kind in ("city", "person", "path", "timezone", "language", "title", "code", "url", "date")]
    if slots and maybe(r, .5):
        slot = r.choice(slots)
        text, value = slot.make(r)
        words = r.choice(("And {}?", "What about {}?", "And for {}?", "Now {}", "And {} please", "The same for {}", "How about {}?")).format(text)
        values = {**values, slot.key: value}
        return [user(words), calls(tool.call(values))], [(tool, values)]
    p = r.random()
    if p < .2:
        return chat(r), None
    if p < .35:
        return unsuitable(r, tools), None
    return single_call(r, tools)


def branch(r, tools, short):
    """One conversation over the tools."""
    p = r.random()
    made = None
    if p < .17:
        messages = unsuitable(r, tools)
    elif p < .21:
        messages = chat(r)
    else:
        found = None
        if p < .37:
            found = ask_for_missing(r, tools)
        elif p < .49:
            found = same_tool_twice(r, tools)
        elif p < .57:
            found = two_requests(r, tools)
        messages, made = found or single_call(r, tools)
    if made and maybe(r, .7 if len(made) == 1 else .85):
        messages = messages + finish(r, made)
        if maybe(r, .2) and not short:
            more, made = follow_up(r, tools, made)
            messages += more
            if made and maybe(r, .3):
                messages += finish(r, made)
    return messages


def system_line(r):
    if maybe(r, .65):
        return ""
    return r.choice(SYSTEM_LINES).format(r.choice((word(r), MAKERS["person"](r)[0], MAKERS["date"](r)[0])))


def pick_tools(r, short):
    """One to five tools that differ in topic, or in verb for the same noun."""
    randomise = maybe(r, .45)
    tools = []
    for _ in range(r.choice((1, 1, 2)) if short else r.choice((1, 2, 2, 3, 3, 4))):
        twins = [t for t in tools if t.bare]
        if maybe(r, .64):
            intent = r.choice(COMMON if maybe(r, .2) else INTENTS)
            if any(not t.bare and (t.requests is intent.requests or t.topic == intent.topic and t.topic != "maths") for t in tools):
                continue
            if intent.topic != "maths" and any(not t.bare and clash(t.topic, intent.topic) for t in tools) and maybe(r, .9):
                continue
            tool = everyday_tool(r, intent, randomise and maybe(r, .9))
        elif twins and maybe(r, .25):
            noun = r.choice(twins).topic
            tool = made_up_tool(r, randomise, noun, [t.verb for t in twins if t.topic == noun])
        else:
            tool = made_up_tool(r, randomise)
        if all(tool.name != t.name for t in tools):
            tools.append(tool)
    return tools


def tree(r, short=False):
    """(tool declarations, system line, conversations). `short` samples open the training."""
    if maybe(r, .05):
        system = system_line(r)
        talks = [chat(r) if maybe(r, .5) else
                 [user(request_without_tools(r)), says(NO_TOOL)] for _ in range(r.choice((2, 3, 4)))]
        return None, system, [talk + chat(r) if maybe(r, .2) else talk for talk in talks]
    tools = pick_tools(r, short)
    while not tools:
        tools = pick_tools(r, short)
    sort_keys = maybe(r, .06)
    declared = [tool.declare(r, sort_keys) for tool in tools]
    talks = [branch(r, tools, short) for _ in range(r.choice((6, 7, 8)))]
    return declared, system_line(r), talks


def request_without_tools(r):
    tool = everyday_tool(r, r.choice(INTENTS), False) if maybe(r, .6) else made_up_tool(r, False)
    tool.declare(r, False)
    return polish(r, request(r, tool)[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    r = random.Random(options.seed)
    for _ in range(options.count):
        tools, system, talks = tree(r)
        print(chatml.render_prefix(tools, system))
        for messages in talks:
            print("".join(text for text, _ in chatml.render_messages(messages)))
            print("--")


if __name__ == "__main__":
    main()
