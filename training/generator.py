"""Synthetic conversations: tools, requests that need them, and the right replies.

    python generator.py --count 3        # print samples as the model sees them
    python generator.py --count 9 --json # the same as {"tools", "messages"}, one conversation a line

A sample is a tree: one prefix (system line, tools) and a few conversations that all start from it. Its tools come from
`tools/*.txt` with the requests written there, or are made up from a verb and a noun. In part of the samples names and
keys are randomised, so that recalling a name never pays and copying it does. Names of `sets/blind.jsonl` are never used.
"""

import argparse
import functools
import itertools
import json
import random
import re
from dataclasses import replace

import chatml
import check_sets
import corpus
import lexicon
from values import JSON_TYPES, MAKERS, WORDS_ABROAD, abroad, counted, pseudo, word

NO_TOOL = "Sorry, I have no tool for that."

# Topics of `tools/` and nouns that no training sample has: what is held out is judged on them.
HELD_TOPICS = set("cooking garden books taxi insurance waste geometry parking".split())
HELD_NOUNS = """elephant concerto bandage pianist blockade meteorite sandal barge glossary voyage airplane witch somersault veteran
diagram stool campfire prize globe vulture nephew meadow haversack larva""".split()
HELD_KEYS = {
    "city": "borough province", "person": "commander economist", "code": "cartridge pegboard", "small_int": "ration splinter", "big_int": "ownership",
    "date": "assumption confession", "clock": "closeup victory", "phrase": "narrative thesis", "title": "scripture lyric", "email": "claimant",
    "path": "dialogue", "number": "expense", "one_word": "greatcoat structure",
}
HELD_WORDS = set(HELD_NOUNS) | {key for keys in HELD_KEYS.values() for key in keys.split()}

# Verbs of made-up tools: names, descriptions, requests about {n}, and such as another verb could serve too.
VERBS = {
    "get": ("get fetch show lookup retrieve read describe", "Get|Show|Look up|Fetch|Return|Read", "Show me the {n}|What is the {n}?|Get the {n}|Tell me the {n}|Give me the {n}|Look up the {n}|Fetch the {n}|Can you show the {n}?|I want to see the {n}|What do we know about the {n}?", "I need the {n}|What {n} do we have?|Where is the {n}?|Do you have the {n}?|{n} please|How about the {n}"),
    "create": ("create add new make register insert", "Create|Add|Make|Register|Insert", "Create a {n}|Add a new {n}|Make a {n}|Please set up a {n}|Register a {n}|New {n}|Could you make me a {n}?|There should be a new {n}", "I want a new {n}|We need another {n}|I need a new {n}|Let us have a new {n}"),
    "delete": ("delete remove cancel drop clear erase", "Delete|Remove|Cancel|Drop|Erase", "Delete the {n}|Remove the {n}|Get rid of the {n}|Cancel the {n}|Please drop the {n}|Erase the {n}|I do not need the {n} any more|Throw away the {n}|The {n} has to go|Take the {n} away|We no longer need the {n}", ""),
    "update": ("update change edit modify set adjust", "Update|Change|Edit|Modify|Adjust", "Update the {n}|Change the {n}|Edit the {n}|Modify the {n}|Please adjust the {n}|Set the {n}|The {n} should be changed|The {n} is wrong, correct it|Make changes to the {n}", ""),
    "list": ("list search find query browse filter", "List|Search|Find|Query|Browse", "List all {n}s|Find {n}s|Search for {n}s|Which {n}s are there?|Show all {n}s|Browse the {n}s|Are there any {n}s?|What {n}s do you have?|I would like to see some {n}s|Give me a list of {n}s", "Look for a {n}|Find a {n}|I am looking for a {n}"),
    "send": ("send share forward deliver post publish", "Send|Share|Forward|Deliver|Publish", "Send the {n}|Share the {n}|Forward the {n}|Deliver a {n}|Post the {n}|Publish the {n}|Let them have the {n}|The {n} has to go out|Pass on the {n}", ""),
    "start": ("start run launch open begin enable", "Start|Run|Launch|Open|Enable", "Start the {n}|Run the {n}|Launch the {n}|Begin the {n}|Please open the {n}|Enable the {n}|Turn the {n} on|Get the {n} going|Let the {n} run|Switch on the {n}", "I want to use the {n}"),
    "stop": ("stop close halt end pause disable", "Stop|Close|Halt|Pause|Disable", "Stop the {n}|Close the {n}|Halt the {n}|End the {n}|Pause the {n}|Disable the {n}|Turn the {n} off|The {n} should stop|Switch off the {n}|Shut down the {n}", "No more {n}"),
    "check": ("check verify validate test inspect", "Check|Verify|Validate|Test|Inspect", "Check the {n}|Is the {n} all right?|Verify the {n}|Test the {n}|Inspect the {n} please|Validate the {n}|Does the {n} work?|Is anything wrong with the {n}?", "Has the {n} arrived?|Can you have a look at the {n}?|What about the {n}?"),
    "calculate": ("calculate compute estimate predict", "Calculate|Compute|Estimate|Predict", "Calculate the {n}|Compute the {n}|Estimate the {n}|What will the {n} be?|Predict the {n}|Work out the {n}|I need a figure for the {n}", "How large is the {n}?|What does the {n} come to?|How much {n} will there be?|How much {n} is there?"),
    "book": ("book reserve order buy rent request", "Book|Reserve|Order|Buy|Rent", "Book a {n}|Reserve a {n}|Order a {n}|Buy a {n}|I want to rent a {n}|I'd like to have a {n}", "I would like a {n}|Get me a {n}|Could I get a {n}?|I need a {n}|A {n} please|We need a {n}"),
}
# Requests with any verb: {v} the {n}.
ANY_VERB = """{v} the {n}|Please {v} the {n}|I want to {v} the {n}|Can you {v} the {n}?|We have to {v} the {n}|Could someone {v} the {n}?|{v} {n}
Help me {v} the {n}|It is time to {v} the {n}|I'd like you to {v} the {n}|Would you {v} the {n}, please|I need to {v} a {n}|Let us {v} the {n}
How do I {v} the {n}?|Somebody should {v} the {n}|Go and {v} the {n}|There is a {n} to {v}|My boss wants to {v} the {n}|Is there a way to {v} the {n}?""".replace("\n", "|").split("|")
# Tools that are named after what they tell: a noun and one of these.
ASPECTS = "status report table hours price history details level schedule location rules size contents count age owner colour weight distance forecast rating address results".split()
ASPECT_REQUESTS = """What is the {a} of the {n}?|{n} {a}|{n} {a} please|Tell me the {a} of the {n}|I need the {n} {a}|What about the {n} {a}?
Do you know the {a} of the {n}?|How is the {n} {a}?|Could you look up the {n} {a}?|I wonder about the {a} of the {n}|the {a} of my {n}""".replace("\n", "|").split("|")
TOPICS = """sales marketing finance support warehouse school hospital city garden music travel factory office shop library
sports energy security network research""".split()
KEYS = {
    "city": "city location place town destination origin branch site", "person": "name person user customer owner member author employee patient guest",
    "email": "email email_address contact_email recipient", "path": "path file filename source target output", "folder": "folder directory dir path",
    "url": "url link address website endpoint", "small_int": "count limit number amount size level days hours minutes quantity age width height year rank",
    "big_int": "id number serial account_number population code total", "decimal": "price amount weight length rate score distance value",
    "number": "value number total amount limit threshold", "date": "date day start_date end_date deadline when due", "clock": "time start end hour at",
    "phrase": "query topic keywords text subject description search", "title": "title name label heading caption", "task": "task action todo job",
    "sentence": "text message comment body content note reason", "code": "code id number reference key sku identifier serial", "phone": "phone phone_number mobile number", "mark": "row seat bay gate lane shelf slot size zone grade platform door desk section label",
    "currency": "currency unit", "language": "language lang", "flag": "active enabled verbose public urgent force recursive archived",
    "one_word": "name type category tag label kind color status format", "room": "room area place",
}
LISTED = "city person email small_int one_word title code path".split()  # of which made-up tools take several
LIKELY_KINDS = "city person small_int date phrase title code one_word clock small_int one_word person".split()
KIND_TEXT = {
    "city": "city|town|place", "person": "person|name|full name", "email": "email address|mail address", "path": "file|path", "folder": "folder|directory",
    "url": "URL|link", "small_int": "number|whole number|count", "big_int": "number|id number", "decimal": "number|decimal number", "number": "number|value",
    "date": "date|day", "clock": "time|time of day", "phrase": "words|topic|search text", "title": "title|name", "task": "thing to do", "sentence": "text|sentence",
    "code": "code|identifier", "mark": "letter|short code|label", "phone": "phone number", "currency": "currency", "language": "language", "flag": "yes or no|switch", "one_word": "word|kind", "room": "room",
}
CUES = {  # words that lead to a value when no other parameter of the tool is of its kind
    "city": ("in {}", "in {}", "at {}"), "person": ("for {}", "of {}"), "email": ("to {}", "for {}"), "path": ("from {}", "in {}"), "folder": ("in {}", "from {}"),
    "url": ("at {}", "from {}"), "date": ("on {}", "for {}"), "clock": ("at {}",), "phrase": ("about {}", "on {}", "about \"{}\""), "title": ("called {}", "named {}", "called \"{}\""),
    "task": ("to {}",), "sentence": ("saying \"{}\"", "with the text \"{}\"", "with the text '{}'"), "code": ("{}", "number {}"), "phone": ("for {}", "at {}"),
    "currency": ("in {}",), "language": ("in {}",), "room": ("in the {}",),
}
CAPITALISED = "city person title place_name code mark language date".split()  # which people write in any case
ARTICLE = re.compile(r"(the|an?|my|our) (?=\w)")  # which requests say and calls leave out
BEGIN, END = "\x01", "\x02"  # around a value in a request that is being made
LABELLED = ("with {k} {v}", "with {k} {v}", "using {k} {v}", "{k} {v}", "{k}: {v}", "where {k} is {v}", "set {k} to {v}", "with {v} as {k}", "the {k} is {v}",
            "and {k} = {v}", "the {k} should be {v}", "({k} {v})", "of {k} {v}")
LABEL = re.compile(r"\b(row|seat|bay|gate|lane|platform|door|desk|line|room|bus|tram|number|machine|bed|table|track|house|flat|order|invoice|ticket|box|code|part"
                   r"|hive|printer|pump|camera|locker|court|pier|berth|stop|block|pitch|slot|tank|pallet|boat|truck|key|lot|stall|case|job|file) " + BEGIN)
AND_THE_SAME = (", and what about {}?", "? And {}?", " and {} too", ", and the same for {}", ". Also {}", ". {} as well", ", {} too", ". And the same for {}", ". Then {}")
ASIDES = """My sister is visiting.|It has been a long day.|We are leaving soon.|I am at work right now.|Just got home.|I nearly forgot.|My friend asked me this.|Need your help.
I don't have my glasses on.|It's one of those days.|My neighbour is on the line.|I should have done this long ago.|Nobody else has the time.|The others are still at lunch.
My hands are full.|I was told you can do this.|I have never done this before.|The boss is watching.|We talked about it over coffee.|I keep putting it off.|It is a bit late, I know.|You know how it is.|My memory is not what it was.
I hope this is the right place to ask.|Our old system did this by itself.|I am on the train and the line is bad.|We are a bit behind.|Excuse my spelling.|I have asked before, I think.|I don't want to do it by hand.|It will be a busy week.
I would rather be outside.|I promised to take care of it.|There was a mix-up.|I just came out of a meeting.|Someone has to do it.|The weather is lovely, by the way.|I am new here.|My colleague sends her regards.|Mum says hello.|Everybody is waiting for me.
I have had too much coffee.|No idea why, but they want it so.|This came up at breakfast.|It has been on my mind.|I only have a moment.|We had guests and it got late.|I am typing with one hand.|It's all a bit much at the moment.
I tried the other app and gave up.|My grandchildren are here.|We are still settling in.|They changed their minds again.|It's not for me, by the way.|The meeting ran over.|Last time it went well.
I'm not good with computers.|My better half insists.|I am between two calls.|It's my turn to look after this.|You never know with these things.|I had it on a piece of paper and lost it.|I hope that is clear.|I told them I would see to it.|Don't ask me why.|We are all a little tired.
Sorry, I am in a rush.|It's nothing special.|I hope you are well.|I could go on, but I won't.""".replace("\n", "|").split("|")  # said in passing, before a request or after it: nothing that a tool could see to
LEADS = """Please |please |Hi, |Hello! |Hey, |Can you help? |I have a question. |Ok, |Now |Quick one: |Good morning. |Hi there! |Sorry to bother you. |I'm in a hurry. |One more thing: |So, |Well, |Right, |Hey Tenon, |Ah, before I forget: |As promised, |Listen, |Um, |Could you do me a favour? |Thanks for earlier. |Anyway, |Right then: |Me again. |Long story short: |If you have a moment: |While I think of it: |Okay so |Good evening! |By the way, |Here is what I need: |You can help me, I think: |Oh, and |Good day, |Dear assistant, |Next thing: """.split("|")
CLOSERS = """ please|, please| for me| now|, thanks|. Thanks!|. Thank you.| if you can|, would you?|. I'm in a hurry.| when you have a minute|, ok?|. Cheers| asap|. That would be great.| right away|. Long story, but anyway.|, if that's possible|. No rush.|, thank you|. Much appreciated!|, thx|. That's it for now.|. Sorry for the trouble.|. You would do me a great favour.|. Many thanks in advance!|, that'd be lovely|. And sorry for all the questions.|. Hope that makes sense.""".split("|")
REMARKS = """Use it only when the user asks for it.|Returns an error when nothing is found.|The answer is in JSON.|It may take some seconds.|Do not guess values.
This needs the right to read.|Works for all users of the account.|The change can be undone later.|Results are sorted by date.|At most 100 results come back.
It is free of charge.|Available around the clock.|Nothing is stored.|Call it once for each item.|See the manual for more.|The service is maintained by the {0} team.
Made for {0}.|Belongs to the {0} module.|Version 2 of the interface.|The caller has to be signed in.""".replace("\n", "|").split("|")
KEY_REMARKS = """Must not be empty.|As the user wrote it.|Case does not matter.|No spaces at the end.|Taken from the request.|Up to 100 characters.
See the list of {0}s.|Used for the {0}.|e.g. {0}|For example: {0} {1}|Not the {0}.""".replace("\n", "|").split("|")
REQUIRED_REMARKS = KEY_REMARKS + ["Ask the user if it is missing.", "Required for new entries.", "There is no default."]
OPTIONAL_REMARKS = KEY_REMARKS + ["Defaults to none.", "If it is left out, the usual one is taken.", "Leave it out if it is not known.", "Optional."]
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
That helps a lot|You are welcome!
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
DOZENS = {"2": "a couple of", "6": "half a dozen", "12": "a dozen", "24": "two dozen"}
BEFORE_A_COUNT = re.compile(r"\b(for|of|with|in|order|buy|add|get|need|want|have|makes?|takes?|us|me|about|within|after) $")
COUNTED_THING = re.compile(r" (?!is|was|has|this|its|as)[a-z]{3,}s\b(?! of)")
# Beside these a number stands in digits: signs, units, other numbers, and what names a thing by its number.
DIGITS_AFTER = re.compile(r"(?i)([\w/+#=.$€-]|\d\x02,? |\b(?:number|no\.|pr|port|card|entry|code|id|issue|ticket|order|invoice|request|room|line|floor|page) )$")
DIGITS_BEFORE = re.compile(r"[\w%/+°-]|\.\.|,? \x01\d")
FRONT = re.compile(r",? (?:in|on|at|for|by|with|as|until|before|after|within|under) (?!it|them|that|one)[^,;:.]*\x02[^,;:.]*$")


def maybe(r, p):
    return r.random() < p


@functools.cache
def barred_names():
    """Names and keys of the blind set, as `check_sets.same_name` spells them."""
    return {check_sets.same_name(name) for name in check_sets.names_of(check_sets.read_set("blind"))}


def barred(name):
    return check_sets.same_name(name) in barred_names()


class Library:
    """The tools of `tools/` by topic: those that are trained on, or those held out."""

    def __init__(self, held):
        every = corpus.load()
        self.intents = [i for i in every if (i.topic.split("/")[0] in HELD_TOPICS) == held]
        for intent in self.intents:
            intent.names = [n for n in intent.names if not barred(n)]
            for param in intent.params:
                param.choices = [k for k in param.keys if not barred(k)] or ["value"]
        self.intents = [i for i in self.intents if i.names]
        self.by_topic = {}
        for intent in self.intents:
            self.by_topic.setdefault(intent.topic.split("/")[0], []).append(intent)
        self.basic = [i for i in self.intents if i.topic.endswith("/basic")]


@functools.cache
def library(held=False):
    return Library(held)


@functools.cache
def nouns():
    """WordNet's nouns without those held out."""
    return allowed(lexicon.nouns())


def held_out(text):
    return any(w in HELD_WORDS or w.removesuffix("s") in HELD_WORDS for w in re.findall("[a-z]+", text))


def allowed(words):
    """Without those held out, nor what says one of them in other words."""
    return [replace(w, same=[s for s in w.same if not held_out(s)], above="" if held_out(w.above) else w.above,
                    gloss="" if held_out(w.gloss) else w.gloss)
            for w in words if not held_out(w.text) and not barred(w.text)]


@functools.cache
def verbs():
    return allowed(lexicon.verbs())


@functools.cache
def adjectives():
    return allowed(lexicon.adjectives())


@functools.cache
def noun_weights():
    total, sums = 0.0, []
    for w in nouns():
        total += min(w.count, 60) ** .5
        sums.append(total)
    return sums


def draw_noun(r):
    """A noun, the commoner ones more often."""
    return r.choices(nouns(), cum_weights=noun_weights())[0]


def noun(r):
    return draw_noun(r).text


def clash(a, b):
    """May a request for `a` be served by `b`?"""
    return a is b or a.first in b.clashes or b.first in a.clashes or bool(name_words(a) & name_words(b))


@functools.cache
def name_words(intent):
    return {" ".join(sorted(name.split("_"))) for name in intent.names}


@functools.cache
def words_of(intent):
    """The words of its names and descriptions."""
    return frozenset(word for text in intent.names + intent.descriptions for word in re.findall("[a-z]+", text.lower()))


def tells_apart(tool, bare, known):
    """Is the noun of a made-up tool another than those of other made-up tools and of written ones?"""
    words = {tool.about.text, *tool.about.same}
    return (all(words.isdisjoint([t.about.text, *t.about.same]) for t in bare)
            and all(words_of(intent).isdisjoint(text.split()[-1] for text in words) for intent in known))


def respell(r, name):
    """The same name in another convention."""
    words = name.split("_")
    p = r.random()
    if p < .66:
        return name
    if p < .84:
        return words[0] + "".join(w.capitalize() for w in words[1:])
    if p < .95:
        return "-".join(words)
    return "".join(w.capitalize() for w in words)


def rename(r, name):
    """A name that cannot be recalled: affixes keep a hint, made-up words do not."""
    p = r.random()
    extra = pseudo(r) if maybe(r, .6) else noun(r).replace(" ", "_")
    if p < .35:
        return name + "_" + extra
    if p < .65:
        return extra + "_" + name
    if p < .75:
        return "%s_v%d" % (name, r.randrange(1, 10))
    if p < .8:
        return "%s__%s" % (extra, name)
    return "_".join(pseudo(r) if maybe(r, .65) else noun(r).replace(" ", "_") for _ in range(r.choice((1, 2, 2))))


class Slot:
    """A parameter of one tool: its key, kind, schema and the words of the request that give it."""

    def __init__(self, key, kind, required, tails=None, description=""):
        self.key, self.required, self.tails, self.description = key, required, tails, description
        self.kind = corpus.Kind(kind) if isinstance(kind, str) else kind
        self.as_text = False

    def make(self, r):
        text, value = make_value(r, self.kind)
        return text, (str(value) if self.as_text else value)

    def can_repeat(self):
        return self.required and self.kind.name not in ("enum", "switch", "flag", "sentence", "task", "phrase", "list", "command", "sql", "pycode", "expression")

    def can_differ(self):
        """May one request name several values, for a call each?"""
        return self.can_repeat() or self.required and self.kind.name == "enum"

    def schema(self, r):
        fields = {"type": "string" if self.as_text else json_type(self.kind)}
        if self.kind.name == "list":
            fields["items"] = {"type": json_type(self.kind.item)}
        if self.description:
            fields["description"] = self.description
        if self.kind.name == "enum":
            fields["enum"] = [value for value, _ in self.kind.options]
        return fields


def json_type(kind):
    return {"int": "integer", "list": "array", "switch": "boolean"}.get(kind.name) or JSON_TYPES.get(kind.name, "string")


def make_value(r, kind):
    """(words of the request, JSON value)."""
    if kind.name == "int":
        return counted(r, r.randrange(kind.low, kind.high + 1))
    if kind.name == "small_int":
        return counted(r, MAKERS["small_int"](r)[1])
    if kind.name in ("enum", "switch"):
        value, said = r.choice(kind.options)
        return r.choice(said), value
    if kind.name == "words":
        p = r.random()
        text = r.choice(kind.options)[0]
        if p > .66:
            text = noun(r) if p < .77 else MAKERS["title"](r)[0] if p < .85 else abroad(r, WORDS_ABROAD) if p < .87 else pseudo(r, 2) if p < .92 else noun(r) + " " + bare_words(text)
        return text, bare_words(text)
    if kind.name == "list":
        made = [one_of_many(*make_value(r, kind.item)) for _ in range(r.choice((1, 2, 2, 3, 3, 4)))]
        made = list({json.dumps(value): (text, value) for text, value in made}.values())
        return listed(r, [text for text, _ in made]), [value for _, value in made]
    if kind.name == "one_word" and maybe(r, .4):
        text = noun(r)
        return text, text
    text, value = MAKERS[kind.name](r)
    if kind.name in CAPITALISED and maybe(r, .15):
        text = text.upper() if maybe(r, .1) else text.lower()
        value = bare_words(text)
    return text, value


def one_of_many(text, value):
    """As it stands among others: "1 200 and 3" or "two and a half and 3" could be three numbers."""
    return (shown_value(value) if isinstance(value, (int, float)) and " " in text else text), value


def bare_words(text):
    """Without its article: whether "the old lift" is one of "the {}" or of "{}", no request tells."""
    return ARTICLE.sub("", text, 1) if ARTICLE.match(text) else text


def wordy(r, text, more, remarks):
    """A description with others and remarks around it, as interfaces that grew have them."""
    texts = [text] + r.sample(more, min(len(more), r.choice((0, 1, 1, 2))))
    r.shuffle(texts)
    texts += [text.format(noun(r), word(r)) for text in r.sample(remarks, r.choice((0, 1, 1, 2, 3)))]
    return " ".join(text if text[-1] in ".?!" else text + "." for text in texts if text)


def key_remarks(required):
    return REQUIRED_REMARKS if required else OPTIONAL_REMARKS


class Tool:
    """A tool as it is declared, with what it takes to write requests for it.

    `requests` give {key} of `fills`, a name -> slot; those of a `bare` tool have no values, which are added with cues.
    """

    def __init__(self, name, description, slots, requests, intent=None, fills=None, stem=""):
        self.name, self.description, self.slots, self.requests = name, description, slots, requests
        self.intent, self.fills, self.stem = intent, fills or {}, stem
        self.bare = intent is None
        self.about, self.means, self.clear = None, frozenset(), []  # of a bare one: its noun, what it does with it, requests that say so
        self.order = [slot.key for slot in slots]

    def declare(self, r):
        properties = [(slot.key, slot.schema(r)) for slot in self.slots]
        if maybe(r, .3):
            r.shuffle(properties)
        parameters = {"type": "object", "properties": dict(properties)}
        required = [key for key, _ in properties if any(s.key == key and s.required for s in self.slots)]
        if required:
            parameters["required"] = required
        self.order = [key for key, _ in properties]
        function = {"name": self.name}
        if self.description:
            function["description"] = self.description
        return {"type": "function", "function": {**function, "parameters": parameters}}

    def call(self, values):
        """The call with arguments in the order of the last declaration."""
        arguments = {key: values[key] for key in self.order if key in values}
        return {"type": "function", "function": {"name": self.name, "arguments": arguments}}


def usual(r, names):
    """One of the names; the first is the commonest."""
    return names[0] if maybe(r, .25) else r.choice(names)


def known_tool(r, intent, randomise, long=False):
    """A tool of `tools/`, renamed if `randomise`, with much text if `long`."""
    name, description = usual(r, intent.names), r.choice(intent.descriptions)
    if long:
        description = wordy(r, description, intent.descriptions, REMARKS)
    slots, used, fills = [], set(), {}
    for param in intent.params:
        if param.tails is not None and maybe(r, .35):
            continue
        key, text = usual(r, param.choices), (r.choice(param.descriptions) if maybe(r, .55) else "")
        for _ in range(8):
            if key not in used:
                break
            key = r.choice(param.choices)
        if randomise and maybe(r, .45):
            key, text = new_key(r, key), text or r.choice(param.descriptions)
        while key in used or barred(key):
            key = new_key(r, key)
        used.add(key)
        if long and maybe(r, .8):
            text = wordy(r, r.choice(param.descriptions), param.descriptions, key_remarks(param.tails is None))
        slot = Slot(key, param.kind, param.tails is None, param.tails, text)
        fills[param.keys[0]] = slot
        slots.append(slot)
    if randomise and maybe(r, .7):
        name = rename(r, name)
    elif maybe(r, .1):
        description = ""
    loosen(r, slots)
    return Tool(respell(r, name), description, slots, intent.requests, intent, fills)


def new_key(r, key):
    p = r.random()
    if p < .35:
        return pseudo(r)
    if p < .6:
        return noun(r).replace(" ", "_")
    if p < .85:
        return "%s_%s" % ((noun(r) if maybe(r, .5) else pseudo(r)).replace(" ", "_"), key)
    return "%s_%s" % (key, (noun(r) if maybe(r, .5) else pseudo(r)).replace(" ", "_"))


def loosen(r, slots):
    """Some declare numbers as strings."""
    for slot in slots:
        slot.as_text = json_type(slot.kind) in ("integer", "number") and maybe(r, .02)


def made_up_slots(r, randomise, about, keys, key_nouns):
    slots, used = [], set()
    for _ in range(r.choice((0, 1, 1, 1, 2, 2, 2, 3))):
        kind = r.choice(list(keys)) if maybe(r, .55) else r.choice([k for k in LIKELY_KINDS if k in keys])
        if maybe(r, .12):
            options = [pseudo(r) if maybe(r, .2) else (noun(r).replace(" ", "_") if maybe(r, .4) else word(r)) for _ in range(r.choice((2, 3, 3, 4)))]
            if len(set(options)) < 2:
                continue
            kind = "enum:" + ",".join(dict.fromkeys(options))
            key, text = r.choice("mode type kind style format order status category".split()), ""
        elif maybe(r, .09) and key_nouns:
            key, kind, text = made_up_switch(r)
            if not randomise and maybe(r, .4):
                text = ""
        else:
            key = r.choice(keys[kind].split())
            if maybe(r, .35) and key_nouns:
                key = made_up_key(r, key)
            text = describe(r, kind, about) if maybe(r, .4) else ""
            if kind in LISTED and maybe(r, .12) and not any(s.kind.name == "list" for s in slots):
                kind, key = "list:" + kind, plural(key)
                text = text and r.choice(("The %s", "List of %s", "Which %s", "All the %s")) % spaced(key)
        if randomise and maybe(r, .5):
            key = new_key(r, key)
            text = text or ("" if ":" in kind else describe(r, kind, about))
        if key in used or barred(key):
            continue
        used.add(key)
        slots.append(Slot(key, kind, maybe(r, .75), None, text))
    loosen(r, slots)
    return slots


def plural(text):
    if re.search("[^su]s$", text):
        return text
    return text[:-1] + "ies" if re.search("[^aeiou]y$", text) else text + ("es" if re.search("(s|x|ch|sh)$", text) else "s")


def made_up_switch(r):
    """A yes or no that is implied: (key, kind, description, which only a key that says it can do without)."""
    p = r.random()
    if p < .3:
        action = r.choice(verbs()).text
        return (action.replace(" ", "_"), "switch:and {0} it|{0} it too|please also {0} it|you may {0} it,don't {0} it|do not {0} it|no need to {0} it|but never {0} it|it isn't one to {0}".format(action),
                "Whether to %s it" % action)
    if p < .65:
        thing = noun(r)
        return thing.replace(" ", "_"), "switch:with {0}|{0}|including {0}|it has {0}|there is {0},without {0}|no {0}|but no {0}|it has no {0}|there isn't any {0}|it doesn't have {0}".format(thing), r.choice(("With " + thing, "Whether there is " + thing))
    quality = r.choice(adjectives())
    sides = [[form.format(text) for text in [quality.text] + quality.same[:1] for form in forms.split("|")] for forms in ("{}|that is {}|it is {}|quite {}", "not {}|that isn't {}|it is not {}|but not {}|it isn't {} at all")]
    return quality.text.replace(" ", "_"), "switch:%s,%s" % tuple("|".join(side) for side in sides), "Whether it is " + quality.text


def made_up_key(r, key):
    """A key of a word or two that says what the value is of."""
    thing, p = noun(r).replace(" ", "_"), r.random()
    if p < .6:
        return thing
    if p < .75:
        return "%s_%s" % (thing, key)
    if p < .88:
        return "%s_%s" % (r.choice(adjectives()).text.replace(" ", "_"), thing)
    return "%s_to_%s" % (thing, r.choice(verbs()).text.replace(" ", "_"))


def words_for(r, about, defines):
    """Words for a noun: in the name, in requests, and its definition if the description is to say that instead; "" otherwise."""
    named, said = about.text, about.text
    if about.same and maybe(r, .25):
        said = r.choice(about.same)
    elif about.same and maybe(r, .15):
        named = r.choice(about.same)
    if about.above and maybe(r, .08):
        named = about.above
    if not about.gloss or not defines or maybe(r, .6):
        return named, said, ""
    return (about.above or pseudo(r), said, about.gloss) if maybe(r, .75) else (named, about.gloss, "")


@functools.cache
def meant(verb):
    """The words that say one of the usual verbs."""
    names, descriptions, _, _ = VERBS[verb]
    return frozenset([verb, *names.split(), *descriptions.lower().split("|")])


def of_an_aspect(r, named, said, defined):
    """(words for what it does, name, description, requests, those that are vague) of a tool that tells something of a noun."""
    aspect = r.choice(ASPECTS)
    description = r.choice(("{A} of a {n}", "The {a} of the {n}", "{A} of the {n}", "Get the {n} {a}")).format(A=aspect.capitalize(), a=aspect, n=defined or named)
    return meant("get"), "%s_%s" % (named, aspect), description, [text.format(a=aspect, n=said) for text in ASPECT_REQUESTS], []


def of_a_usual_verb(r, named, said, defined, avoid):
    verb = r.choice([v for v in VERBS if meant(v).isdisjoint(avoid)] or list(VERBS))
    names, descriptions, *requests = (text.split("|") for text in VERBS[verb])
    clear, vague = ([text.format(n=said) for text in texts if text] for texts in requests)
    plural = "s" if verb == "list" else ""
    thing = defined or named + plural
    description = "%s %s%s" % (r.choice(descriptions), "" if plural else r.choice(("the ", "a ", "")), thing)
    return meant(verb), "%s_%s%s" % (r.choice(names[0].split()), named, plural), description, clear, vague


def of_any_verb(r, named, said, defined, avoid, defines):
    drawn = r.sample(verbs(), 8)
    action = r.choice([v for v in drawn if avoid.isdisjoint([v.text, *v.same])] or drawn)
    name, description = "%s_%s" % (action.text, named), "%s %s%s" % (action.text.capitalize(), r.choice(("the ", "a ", "")), defined or named)
    if defines and action.gloss and maybe(r, .3):
        name, description = "%s_%s" % (pseudo(r), named), "%s: %s" % (action.gloss.capitalize(), defined or named)
    do = r.choice(action.same) if action.same and maybe(r, .25) else action.text
    requests = [text.format(v=do, n=said) for text in ANY_VERB]
    return frozenset([action.text, *action.same]), name, description, [text[0].upper() + text[1:] if maybe(r, .7) else text for text in requests], []


def made_up_tool(r, randomise, twins=(), keys=KEYS, choose=None):
    """A tool of a verb and a noun, or of a noun and an aspect; one that does something else with the noun of `twins`."""
    avoid = frozenset().union(*(t.means for t in twins))
    if twins:
        about = twins[0].about
    else:
        about = choose(r) if choose else draw_noun(r)
        if not choose:
            if maybe(r, .12):
                about = lexicon.Word(pseudo(r), 0)
            elif maybe(r, .15):
                about = lexicon.Word(noun(r) + " " + about.text, 0)
    named, said, defined = words_for(r, about, not choose)
    if said == about.gloss:
        avoid |= {"list"}  # which says it in the plural
    slots = made_up_slots(r, randomise, named, keys, not choose)
    p = r.random()
    if p < .18 and "get" not in avoid:
        means, name, description, requests, vague = of_an_aspect(r, named, said, defined)
    elif p < .6:
        means, name, description, requests, vague = of_a_usual_verb(r, named, said, defined, avoid)
    else:
        means, name, description, requests, vague = of_any_verb(r, named, said, defined, avoid, not choose)
    says_more = defined or ":" in description  # than the name
    description += r.choice(("", "", ".", " of the " + r.choice(TOPICS), " in the %s system." % r.choice(TOPICS)))
    name = name.replace(" ", "_")
    if randomise:
        name = rename(r, name)
    elif not says_more and maybe(r, .3):
        description = ""
    tool = Tool(respell(r, name), description, slots, requests + vague, stem=about.text)
    tool.means, tool.about, tool.clear = means, about, requests
    for twin in (tool, *twins) if twins else ():
        twin.requests = twin.clear
    return tool


def describe(r, kind, about):
    text = r.choice(KIND_TEXT[kind].split("|"))
    return r.choice(("The %s of the %s" % (text, about), "The " + text, text.capitalize(), "%s of the %s" % (text.capitalize(), about),
                     "The %s to use." % text, "Which " + text))


def tells_kind(slot):
    """Does the declaration say what kind of value it wants? A key that is any noun does not."""
    return bool(slot.description) or not set(KEYS[slot.kind.name].split()).isdisjoint([slot.key, *slot.key.split("_")])


def cue(r, tool, slot, text, many):
    """Words that give `text` to `slot`; `many` if it is several values."""
    alone = sum(s.kind.name == slot.kind.name for s in tool.slots) == 1
    label = spaced(slot.key) if maybe(r, .85) else slot.key
    if many and maybe(r, .5):
        label += "s"
    if slot.kind.name in CUES and alone and (len(tool.slots) == 1 or tells_kind(slot)) and maybe(r, .55):
        return r.choice(CUES[slot.kind.name]).format(text)
    if slot.kind.name == "enum" and maybe(r, .35):
        return r.choice(("{}", "in {} {}".format("{}", label), "as {}")).format(text)
    if slot.kind.name == "switch":
        return text
    if slot.kind.name == "flag" and maybe(r, .3):
        return "%s %s" % (label, "on" if "true" in text else "off")
    return r.choice(LABELLED).format(k=label, v=text)


def request(r, tool, missing=None, fixed=None):
    """A request for the tool and the argument values; `missing` is a required slot left out.

    Values stand between marks until `user` takes them off, so that nothing changes their case or their last full stop.
    """
    values, texts = {}, {}
    for slot in tool.slots:
        text, values[slot.key] = (fixed or {}).get(slot.key) or slot.make(r)
        if slot.kind.name == "list" and sum(s.kind.name == "list" for s in tool.slots) > 1:
            text = ", ".join(map(shown_value, values[slot.key]))  # since "1 and 2 and 3" would not tell where one list ends
        texts[slot.key] = BEGIN + text + END
    if tool.bare:
        words = blur(r, r.choice(tool.requests))
        if maybe(r, .2):
            words = words.replace(" the ", r.choice((" my ", " our ", " this ", " that ")), 1)
        end = "?" if words.endswith("?") else ""
        words = words.rstrip("?")
        for slot in sorted(r.sample(tool.slots, len(tool.slots)), key=lambda s: s.kind.name == "list"):  # nothing follows a list
            if slot is missing or not slot.required and maybe(r, .5):
                del values[slot.key]
            else:
                words += r.choice((" ", " ", " ", ", ")) + cue(r, tool, slot, texts[slot.key], values[slot.key] is None)
        return fit_numbers(r, tool, words + (end if maybe(r, .8) else ""), texts, values), values
    name = next((n for n, s in tool.fills.items() if s is missing), None)
    words = blur(r, r.choice(tool.intent.ask[name] if missing else tool.requests))
    words = words.format(**{n: texts[s.key] for n, s in tool.fills.items()})
    if missing:
        del values[missing.key]
    stem, end = (words[:-1], words[-1]) if words[-1] in "?.!" else (words, "")
    front = ""
    for slot in tool.slots:
        if slot.tails is None:
            continue
        if missing is None and maybe(r, .45):
            tail = r.choice(slot.tails).format(texts[slot.key])
            if not front and FRONT.match(tail) and maybe(r, .25) and not re.search("[.?!;:]", stem):
                front = tail.lstrip(" ,")
            else:
                stem += tail
        else:
            del values[slot.key]
    if front:
        stem = front[0].upper() + front[1:] + ", " + uncapitalised(stem)
    return fit_numbers(r, tool, stem + end, texts, values), values


def fit_numbers(r, tool, words, texts, values):
    """`words` with numbers as what stands beside them allows: digits where a sign or a unit does, "a dozen" before what is counted."""
    for slot in tool.slots:
        if slot.key not in values or json_type(slot.kind) not in ("integer", "number"):
            continue
        text, value = texts[slot.key], str(values[slot.key])
        before, found, after = words.partition(text)
        if not found or value == "None":
            continue
        if text[1:-1] != value and (DIGITS_AFTER.search(before) or DIGITS_BEFORE.match(after)):
            words = before + BEGIN + value + END + after
        elif value in DOZENS and BEFORE_A_COUNT.search(before) and COUNTED_THING.match(after) and maybe(r, .3):
            words = before + BEGIN + DOZENS[value] + END + after
    return words


def uncapitalised(words):
    """As it goes on after other words."""
    return words if re.match("I\\b|[A-Z]{2}", words) else words[0].lower() + words[1:]


def blur(r, text):
    """Now and then a slip of the keyboard in a word that is no value."""
    if not maybe(r, .03):
        return text
    spans = [m for m in re.finditer(r"\{[^}]*\}|[a-z]{5,}", text) if m.group()[0] != "{"]
    if not spans:
        return text
    at = r.choice(spans)
    i = r.randrange(at.start() + 1, at.end() - 1)
    return text[:i] + (text[i + 1] + text[i] + text[i + 2:] if maybe(r, .5) else text[i + 1:])


def polish(r, words):
    """Openers, remarks in passing, lower case, missing or added full stops."""
    open_ended = words.rstrip(END)[-1].isalnum()
    closed = words[-1] in "?.!"
    free = words[-1] != END or " " not in words[words.rindex(BEGIN):]  # may more follow that is not taken for the value's?
    if maybe(r, .24):
        opener = r.choice(LEADS if maybe(r, .6) else ASIDES).rstrip() + " "
        words = opener + (words if opener[-2] in ".!?" else uncapitalised(words))
        if maybe(r, .2):
            words = r.choice(ASIDES) + " " + words
    p = r.random()
    if p < .12:
        words = words[0].lower() + words[1:]
    elif p < .18:
        words = words.rstrip("?.!")
    elif p < .26 and open_ended:
        words += "."
    elif p < .33 and open_ended and free:
        words += r.choice(CLOSERS)
    elif p < .39 and free and (open_ended or closed):
        words += ("" if closed else ".") + " " + r.choice(ASIDES)
    return words


def user(text):
    return {"role": "user", "content": text.replace(BEGIN, "").replace(END, "")}


def says(text):
    return {"role": "assistant", "content": text}


def calls(*made):
    return {"role": "assistant", "content": "", "tool_calls": list(made)}


def result_and_sentence(r, tool, values):
    """What the tool returns, and the sentence made of it."""
    p = r.random()
    if p < .06:
        return failed(r)
    if p < .09:
        return nothing(r), "I found nothing."
    if p < .14:
        return done(r)
    if tool.intent and tool.intent.done and p < .82:
        # Most words of a result are any words, or a sentence would be guessed instead of copied.
        shown, words_of_switches = {}, {}
        for name, kind in tool.intent.result.items():
            text, value = MAKERS["one_word"](r) if kind.name == "enum" and maybe(r, .5) else make_value(r, kind)
            shown[name] = text if kind.name == "words" else value
            if kind.name == "switch":
                words_of_switches[name] = text
        if shown and p > .57:  # as of a tool that is new to one
            return as_result(r, nested(r, shown)), told(shown)
        shown.update(words_of_switches)  # sentences are written for those
        facts = dict(shown)
        if maybe(r, .15):  # fields that the sentence does not use
            shown = {**other_fields(r, tool, values), **shown}
        if maybe(r, .4):
            shown = dict(r.sample(list(shown.items()), len(shown)))
        given = {name: values[slot.key] for name, slot in tool.fills.items() if slot.key in values}
        sentence = r.choice(tool.intent.done).format(**{k: shown_value(v) for k, v in {**given, **facts}.items()})
        return as_result(r, shown) if shown else r.choice(("ok", "OK", "done")), sentence[0].upper() + sentence[1:]
    p = r.random()
    if p < .1:
        found = [(MAKERS["path"](r)[0], r.randrange(1, 300), some_words(r, 3, 12)) for _ in range(r.choice((1, 1, 2, 3)))]
        return "\n".join("%s:%d: %s" % line for line in found), "I found %s." % join([path for path, _, _ in found])
    if p < .18:
        text = some_words(r, 14, 50) if maybe(r, .8) else some_words(r, 50, 160)
        return text, "It says: %s ..." % " ".join(text.split()[:8])
    if p < .4:
        text = r.choice((phrase_text(r), MAKERS["sentence"](r)[0], "%s: %s" % (word(r), phrase_text(r)), some_words(r, 3, 8)))
        return text, "The result is: " + text
    if p < .5:
        number = shown_value(MAKERS["number"](r)[1])
        return number, "The result is: " + number
    if p < .6:
        items = [MAKERS[r.choice(("title", "path", "one_word", "person", "code"))](r)[0] for _ in range(r.choice((1, 2, 3, 4)))]
        return as_result(r, items), "I found %s." % join(items)
    if p < .68:
        kind = r.choice(("title", "person", "one_word", "place_name", "code"))
        first = r.choice(KEYS.get(kind, KEYS["title"]).split())
        rows = [dict([(first, MAKERS[kind](r)[1])] + [field(r) for _ in range(r.choice((0, 1, 2)))]) for _ in range(r.choice((1, 2, 2, 3)))]
        return as_result(r, r.choice((rows, in_an_object(r, rows)))), "I found %s." % join([row_told(row) for row in rows])
    shown = dict(field(r) for _ in range(r.choice((1, 2, 2, 3))))
    return as_result(r, nested(r, shown)), told(shown)


def failed(r):
    error = r.choice(("not found", "timeout", "permission denied", "no such " + word(r), "%s is invalid" % word(r), phrase_text(r)))
    p = r.random()
    if p < .5:
        return as_result(r, {"error": error}), "That did not work: %s." % error
    if p < .65:
        return as_result(r, r.choice(({"ok": False}, {"success": False}, {"status": "error"}, {"status": "failed"}, False))), "That did not work."
    key, said = r.choice(("error", "message", "reason")), r.choice(({"ok": False}, {"success": False}, {"status": "error"}, {"error": True}))
    return r.choice((as_result(r, {**said, key: error}), as_result(r, {"error": {"message": error}}), "Error: " + error)), "That did not work: %s." % error


def nothing(r):
    """An empty result."""
    if maybe(r, .1):
        return r.choice(("none", "No results.", "nothing found", "no matches", ""))
    return as_result(r, r.choice(([], {}, "", None, in_an_object(r, []), in_an_object(r, []))))


def in_an_object(r, rows):
    key = r.choice(("results", "items", "found", "data", plural(noun(r).replace(" ", "_"))))
    count = {r.choice(("count", "total")): len(rows)} if maybe(r, .3) else {}
    return {**count, key: rows} if maybe(r, .3) else {key: rows, **count}


def done(r):
    """What says only that it is done, now and then with a fact."""
    if maybe(r, .4):
        text = r.choice(("ok", "OK", "done", "Done.", "success", True))
        return as_result(r, text) if text is True or maybe(r, .3) else text, "It is done."
    shown = [r.choice([(key, True) for key in ("ok", "success", "done")] + [(key, text) for key in ("status", "result") for text in ("ok", "done", "success")])]
    fact = field(r)
    if maybe(r, .5) and fact[0] != shown[0][0]:
        shown.insert(maybe(r, .6), fact)
    return as_result(r, dict(shown)), told(dict(shown))


def says_done(key, value):
    return key in ("ok", "success", "done") and value is True or key in ("status", "result") and value in ("ok", "done", "success")


def nested(r, facts):
    """Now and then the last facts one level deeper."""
    key = r.choice(("data", "result", noun(r).replace(" ", "_")))
    if not facts or key in facts or not maybe(r, .15):
        return facts
    keys = list(facts)
    outer = keys[:r.randrange(len(keys))]
    return {**{k: facts[k] for k in outer}, key: {k: facts[k] for k in keys[len(outer):]}}


def row_told(row):
    """Its first value, and the others in brackets."""
    first, *others = row.items()
    others = ["%s: %s" % (spaced(key), shown_value(value)) if isinstance(value, bool) else shown_value(value) for key, value in others]
    return shown_value(first[1]) + (" (%s)" % ", ".join(others) if others else "")


def told(facts):
    """Sentences that say them in their order; each yes or no has its own."""
    said = ["It is done."] if any(says_done(*fact) for fact in facts.items()) else []
    left = [fact for fact in facts.items() if not says_done(*fact)]
    for answers, some in itertools.groupby(left, key=lambda fact: isinstance(fact[1], bool)):
        if answers:
            said += ["%s: %s." % (spaced(key), shown_value(value)) for key, value in some]
        else:
            text = join(["the %s %s %s" % (spaced(key), "are" if isinstance(value, list) and len(value) > 1 else "is", shown_value(value)) for key, value in some])
            said.append(stopped(text))
    return " ".join(text[0].upper() + text[1:] for text in said)


def stopped(text):
    return text if text[-1] in ".?!" else text + "."


def spaced(key):
    return key.replace("_", " ")


def as_result(r, value):
    """JSON as Python writes it, or as JavaScript does."""
    return chatml.dumps(value) if maybe(r, .6) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def some_words(r, least, most):
    return " ".join(word(r) for _ in range(r.randrange(least, most + 1)))


def any_field(r):
    """A key and a value of a result."""
    kind = r.choice([k for k in KEYS if k not in ("flag", "sentence", "task")])
    key = r.choice(KEYS[kind].split()) if maybe(r, .5) else (noun(r).replace(" ", "_") if maybe(r, .6) else pseudo(r))
    return key, MAKERS[kind](r)[1]


def field(r):
    """The same, or a yes or no, or one that is not known."""
    p = r.random()
    if p < .05:
        return any_field(r)[0], None
    if p < .2:
        key = r.choice((r.choice(KEYS["flag"].split()), r.choice(adjectives()).text, "is_" + r.choice(adjectives()).text, "has_" + noun(r)))
        return key.replace(" ", "_"), maybe(r, .5)
    return any_field(r)


def other_fields(r, tool, values):
    """What a result may hold besides: an argument again, or anything."""
    slots = [s for s in tool.slots if s.key in values]
    if slots and maybe(r, .5):
        slot = r.choice(slots)
        return {slot.key: values[slot.key]}
    return dict(any_field(r) for _ in range(r.choice((1, 1, 2))))


def shown_value(value):
    if value is None or isinstance(value, bool):
        return "unknown" if value is None else "yes" if value else "no"
    if isinstance(value, list):
        return join([shown_value(v) for v in value])
    return value if isinstance(value, str) else chatml.dumps(value)


def phrase_text(r):
    return MAKERS["phrase"](r)[0]


def join(parts):
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def finish(r, made):
    """The tool turns and the final sentence for [(tool, values)]."""
    results = [result_and_sentence(r, tool, values) for tool, values in made]
    return [{"role": "tool", "content": text} for text, _ in results] + [says(" ".join([stopped(s) for _, s in results[:-1]] + [results[-1][1]]))]


def single_call(r, tools):
    tool = r.choice(tools)
    words, values = request(r, tool)
    return [user(polish(r, words)), calls(tool.call(values))], [(tool, values)]


def look(slot):
    """Values of one look do not tell by themselves which parameter they are for."""
    name = slot.kind.name
    return {"big_int": "number", "int": "number", "small_int": "number", "decimal": "number", "number": "number", "amount": "number", "mark": "code"}.get(
        name, name if name in ("date", "clock", "code", "path", "folder", "url", "email", "phone", "currency", "enum", "switch", "flag", "list") else "text")


def unlike(tool, slot, values):
    """Has no other value of the call this one's look?"""
    return all(other is slot or other.key not in values or look(other) != look(slot) for other in tool.slots)


def differ(parts):
    """Are all values different ones, in any case?"""
    return len({json.dumps(value).lower() for value in parts}) == len(parts)


def same_tool_twice(r, tools):
    """"... in Paris and Rome": one request, a call per value; None if no tool suits."""
    suited = [t for t in tools if any(s.can_differ() for s in t.slots)]
    if not suited:
        return None
    tool = r.choice(suited)
    if maybe(r, .45) and (found := row_by_row(r, tool)):
        return found
    slot = r.choice([s for s in tool.slots if s.can_differ()])
    parts = [one_of_many(*slot.make(r)) for _ in range(2 if slot.kind.name == "enum" else r.choice((2, 2, 2, 3, 3, 4)))]
    if not differ([value for _, value in parts]) or not differ([text for text, _ in parts]):
        return None
    texts = [text for text, _ in parts]
    if maybe(r, .8) or slot.kind.name == "enum":
        words, values = request(r, tool, fixed={slot.key: (several(r, texts), None)})
        if maybe(r, .6):
            words = LABEL.sub(r"\1s " + BEGIN, words)
        if maybe(r, .08) and words[-1] not in "?.!":
            words += " each"
    else:
        words, values = request(r, tool, fixed={slot.key: parts[0]})
        if not unlike(tool, slot, values):
            return None
        words = words.rstrip("?.!") + r.choice(AND_THE_SAME).format(BEGIN + several(r, texts[1:]) + END)
    if slot.key not in values:
        return None
    made = [(tool, {**values, slot.key: value}) for _, value in parts]
    return [user(polish(r, words)), calls(*(t.call(v) for t, v in made))], made


def several(r, texts):
    if any("," in text for text in texts):
        return " and ".join(texts)
    p = r.random()
    if p < .65 or len(texts) == 1:
        return join(texts)
    if p < .75:
        return ", ".join(texts[:-1]) + r.choice((", and ", " & ", " plus ")) + texts[-1]
    return r.choice((" and also ", " as well as ", " plus ", ", ", ", ", " and ", " and ", " & ")).join(texts)


def listed(r, texts):
    """The values of one list."""
    return "both " + join(texts) if len(texts) == 2 and maybe(r, .05) else several(r, texts)


def row_by_row(r, tool):
    """"2 seats in row C and 3 in row F": the part of a request that holds its values, once for each call."""
    found = with_values(r, tool)
    if not found:
        return None
    made = [found[1](r) for _ in range(r.choice((2, 2, 2, 3)))]
    if not differ([values for _, values in made]):
        return None
    parts = [part for part, _ in made]
    said = r.choice((", ", "; ")).join(parts) if maybe(r, .25) else several(r, parts)
    made = [(tool, values) for _, values in made]
    return [user(polish(r, found[0] % said)), calls(*(t.call(v) for t, v in made))], made


def with_values(r, tool):
    """A request with %s where its values stand, from the first to the last, and a maker of that part and the values; None if it has none."""
    slots = [s for s in tool.slots if s.required]
    if len(slots) < 2 or not all(s.can_repeat() or s.kind.name in ("enum", "switch") for s in slots):
        return None
    words = blur(r, r.choice(tool.requests))
    if tool.bare:
        words = words.rstrip("?") + "".join(" " + cue(r, tool, s, "{%s}" % s.key, False) for s in r.sample(slots, len(slots)))
    else:
        words = re.sub(r"{(\w+)}", lambda m: "{%s}" % tool.fills[m[1]].key, words)
    start, end = words.index("{"), words.rindex("}") + 1
    if re.search("[.?!;:()]", words[start:end]) or words[start:end].count('"') % 2:
        return None
    if words[start - 1:start] == words[end:end + 1] == '"':
        start, end = start - 1, end + 1

    def make(r):
        drawn = {s.key: s.make(r) for s in slots}
        texts, values = {key: BEGIN + text + END for key, (text, _) in drawn.items()}, {key: value for key, (_, value) in drawn.items()}
        return fit_numbers(r, tool, re.sub("{([^}]*)}", lambda m: texts[m[1]], words[start:end]), texts, values), values

    return words[:start].replace("%", "%%") + "%s" + words[end:].replace("%", "%%"), make


def two_requests(r, tools):
    """Two or three requests in one turn, a call for each; None if two would be the same."""
    count = min(r.choice((2, 2, 2, 3)), max(2, len(tools)))
    chosen = [r.choice(tools)] * 2 if len(tools) < 2 or maybe(r, .2) else r.sample(tools, count)
    made = [(tool, *request(r, tool)) for tool in chosen]
    if not differ([[tool.name, values] for tool, _, values in made]):
        return None
    words = made[0][1]
    if maybe(r, .1) and words[-1] not in "?.!":
        words += " please"
    for _, more, _ in made[1:]:
        ended = words.rstrip(END)[-1] in "?.!"
        glue = r.choice((" and ", ", and ", ". And ", " and also ", ". Also ", ", and then ", " and then ", "; ", ". ", ". Then ", ". Second: "))
        if glue[0] != ".":
            more = uncapitalised(more)
        words = (words + glue[1:] if ended and glue[0] == "." else words.rstrip("?.!") + glue) + more
    made = [(tool, values) for tool, _, values in made]
    return [user(polish(r, words)), calls(*(t.call(v) for t, v in made))], made


def ask_for_missing(r, tools):
    """A request without a required value: the model asks for it; None if no tool suits."""
    suited = []
    for tool in tools:
        slots = [s for s in tool.slots if s.required and (tool.bare or any(tool.fills.get(n) is s for n in tool.intent.ask))]
        suited += [(tool, slots)] if slots else []
    if not suited:
        return None
    tool, slots = r.choice(suited)
    slot = r.choice(slots)
    words, values = request(r, tool, missing=slot)
    messages = [user(polish(r, words)), says("Please tell me the %s." % spaced(slot.key))]
    if maybe(r, .4) and not any(s.tails is not None for s in tool.slots):
        text, value = slot.make(r)
        reply = r.choice(("{}", "{}", "The {k} is {}", "Use {}", "{} please", "{k}: {}")).format(text, k=spaced(slot.key))
        values[slot.key] = value
        return messages + [user(reply), calls(tool.call(values))], [(tool, values)]
    return messages, None


def unsuitable(r, tools, held=False):
    """A request that none of the tools serves."""
    bare, known = [t for t in tools if t.bare], [t.intent for t in tools if t.intent]
    lib = library(held)
    for _ in range(20):
        if maybe(r, .8):
            twin = r.choice(known) if known and maybe(r, .35) else None
            intent = r.choice(lib.by_topic[twin.topic.split("/")[0]] if twin else lib.intents)
            if any(clash(intent, other) for other in known):
                continue
            other = known_tool(r, intent, False)
            if not all(tells_apart(t, (), [intent]) for t in bare):
                continue
        else:
            near = r.choice(bare) if bare and maybe(r, .15) else None
            other = made_up_tool(r, False, [t for t in bare if t.about is near.about] if near else ())
            if not tells_apart(other, [] if near else bare, known):
                continue
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
        question = question.lower() if maybe(r, .5) or question[-1] == "?" else question + r.choice(("!", ".", " Tenon"))
    return [user(question), says(answer)]


def as_json(r):
    """Facts that are to come back as JSON."""
    facts = dict(any_field(r) for _ in range(r.choice((1, 2, 2, 3, 4))))
    said = [r.choice(("{k}: {v}", "the {k} is {v}", "{k} {v}")).format(k=spaced(k), v=shown_value(v)) for k, v in facts.items()]
    asked = r.choice(("{} as JSON", "{} in JSON", "Answer in JSON: {}", "JSON of this: {}", "Write this as JSON: {}", "{}. Reply with JSON only."))
    return [user(polish(r, asked.format(join(said)))), says(chatml.dumps(facts))]


def follow_up(r, tools, made):
    """A second request after the first is answered."""
    tool, values = made[0]
    slots = [s for s in tool.slots if s.key in values and unlike(tool, s, values)
             and s.kind.name in ("city", "person", "path", "timezone", "language", "title", "code", "url", "date", "words")
             and all({**other, s.key: None} == {**values, s.key: None} for _, other in made)]  # else the others' values are not told
    slot = r.choice(slots) if slots and all(other is tool for other, _ in made) and maybe(r, .6) else None
    text, value = slot.make(r) if slot else ("", None)
    if slot and value != values[slot.key]:
        words = r.choice(("And {}?", "What about {}?", "And for {}?", "Now {}", "And {} please", "The same for {}", "How about {}?", "And what about {}?", "Do the same for {}")).format(text)
        values = {**values, slot.key: value}
        return [user(words), calls(tool.call(values))], [(tool, values)]
    found = with_values(r, tool) if all(other is tool for other, _ in made) and maybe(r, .4) else None
    if found:
        part, values = found[1](r)
        words = r.choice(("And {}", "And {}?", "and {}", "Then {}", "Now {}", "Also {}", "{} as well", "Next: {}", "{}")).format(part)
        return [user(words), calls(tool.call(values))], [(tool, values)]
    p = r.random()
    if p < .2:
        return chat(r), None
    if p < .35:
        return unsuitable(r, tools), None
    return single_call(r, tools)


def branch(r, tools):
    """One conversation over the tools."""
    p = r.random()
    made = None
    if p < .18:
        messages = unsuitable(r, tools)
    elif p < .2:
        messages = chat(r)
    else:
        found = None
        if p < .3:
            found = ask_for_missing(r, tools)
        elif p < .44:
            found = same_tool_twice(r, tools)
        elif p < .6:
            found = two_requests(r, tools)
        messages, made = found or single_call(r, tools)
    if made and maybe(r, .4 if len(made) == 1 else .5):
        messages = messages + finish(r, made)
        if maybe(r, .25):
            more, made = follow_up(r, tools, made)
            messages += more
            if made and maybe(r, .3):
                messages += finish(r, made)
    return messages


def system_line(r):
    if maybe(r, .65):
        return ""
    return r.choice(SYSTEM_LINES).format(r.choice((word(r), MAKERS["person"](r)[0], MAKERS["date"](r)[0])))


def pick_tools(r, held=False):
    """Up to nine tools that the words of a request tell apart."""
    randomise, long = maybe(r, .4), maybe(r, .14)
    lib = library(held)
    tools = []
    for _ in range(r.choice((1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7, 9))):
        bare, known = [t for t in tools if t.bare], [t.intent for t in tools if t.intent]
        if maybe(r, .8):
            twin = r.choice(known) if known and maybe(r, .3) else None
            intent = r.choice(lib.by_topic[twin.topic.split("/")[0]] if twin else lib.basic if lib.basic and maybe(r, .1) else lib.intents)
            if any(clash(intent, other) for other in known):
                continue
            if not all(tells_apart(t, (), [intent]) for t in bare):
                continue
            tool = known_tool(r, intent, randomise and maybe(r, .9), long)
        elif bare and maybe(r, .3):
            about = r.choice(bare).about
            tool = made_up_tool(r, randomise, [t for t in bare if t.about is about])
        else:
            tool = made_up_tool(r, randomise)
            if not tells_apart(tool, bare, known):
                continue
        if all(tool.name != t.name for t in tools) and not barred(tool.name):
            if long and tool.bare:
                tool.description = wordy(r, tool.description, [t for t in (tool.about.gloss, ", ".join(tool.about.same)) if t], REMARKS)
                for slot in tool.slots:
                    if maybe(r, .8):
                        slot.description = wordy(r, slot.description or spaced(slot.key), [], key_remarks(slot.required))
            tools.append(tool)
    return tools


def tree(r):
    """(tool declarations, system line, conversations)."""
    if maybe(r, .03):
        talks = [as_json(r) if maybe(r, .4) else chat(r) if maybe(r, .5) else
                 [user(request_without_tools(r)), says(NO_TOOL)] for _ in range(r.choice((4, 5, 6)))]
        return None, system_line(r), [talk + chat(r) if maybe(r, .2) else talk for talk in talks]
    tools = pick_tools(r)
    while not tools:
        tools = pick_tools(r)
    declared = [tool.declare(r) for tool in tools]
    talks = [branch(r, tools) for _ in range(r.choice((7, 8, 9, 10)))]
    return declared, system_line(r), talks


def request_without_tools(r):
    tool = known_tool(r, r.choice(library().intents), False) if maybe(r, .6) else made_up_tool(r, False)
    return polish(r, request(r, tool)[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="a conversation a line, with its tools")
    options = parser.parse_args()
    r = random.Random(options.seed)
    for _ in range(options.count):
        tools, system, talks = tree(r)
        if options.json:
            for messages in talks:
                print(json.dumps({"tools": tools or [], "messages": messages}))
            continue
        print(chatml.render_prefix(tools, system))
        for messages in talks:
            print("".join(text for text, _ in chatml.render_messages(messages)))
            print("--")


if __name__ == "__main__":
    main()
