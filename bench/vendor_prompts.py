"""Requests of the shapes that the vendors' verifiers ask, all our own, drawn from a seed: bench/vendor_verify.py asks them.

    prompt = make_prompt(seed=1, number=17)
    prompt.request       # {"messages": [...], "tools": [...]}
    prompt.due           # the calls that are due, [{"name", "arguments"}]; empty where a text is due

A request depends on its seed and number only, so that a set can be made longer. There are ten domains with six tools each. A request
has 1 to 20 tools. Those of its own domain are chosen first, so that the right tool stands beside similar ones.
"""

import dataclasses
import json
import random

# ---- values: name: (schema, values or a function that draws one)


def text(*values):
    return {"type": "string"}, values


def choice(*values):
    return {"type": "string", "enum": list(values)}, values


def whole(least, most):
    return {"type": "integer", "minimum": least, "maximum": most}, range(least, most + 1)


def number(*values):
    return {"type": "number", "exclusiveMinimum": 0}, values


def code(letter):
    """As `O-4711`."""
    return {
        "type": "string",
        "pattern": f"^{letter}-[0-9]{{4}}$",
    }, lambda draw: f"{letter}-{draw.randrange(1000, 10000)}"


def some(name):
    """Two or three values of another kind, as an array."""
    schema, _ = VALUES[name]
    return {
        "type": "array",
        "items": schema,
        "minItems": 1,
        "uniqueItems": True,
    }, lambda draw: draw.sample(list(VALUES[name][1]), draw.choice([2, 3]))


def record(**members):
    """An object of other kinds."""
    schema = {
        "type": "object",
        "properties": {member: VALUES[kind][0] for member, kind in members.items()},
        "required": list(members),
        "additionalProperties": False,
    }
    return schema, lambda draw: {member: draw_value(draw, kind) for member, kind in members.items()}


VALUES = {
    "city": text("Lisbon", "Oslo", "Kyoto", "Nairobi", "Lima", "Toronto", "Graz", "Busan", "Porto"),
    "person": text("Ann Lee", "Omar Haddad", "Jana Novak", "Luis Ortega", "Mei Tanaka", "Tom Reed"),
    "street": text("12 Mill Lane", "7 Harbour Street", "98 Oak Avenue", "3 Station Road"),
    "date": (
        {"type": "string", "pattern": "^20[0-9]{2}-[0-1][0-9]-[0-3][0-9]$"},
        lambda draw: f"2027-{draw.randrange(1, 13):02}-{draw.randrange(1, 29):02}",
    ),
    "time": (
        {"type": "string", "pattern": "^[0-2][0-9]:[0-5][0-9]$"},
        lambda draw: f"{draw.randrange(8, 22):02}:{draw.choice(['00', '15', '30', '45'])}",
    ),
    "zip": (
        {"type": "string", "pattern": "^[0-9]{5}$"},
        lambda draw: f"{draw.randrange(10000, 99999)}",
    ),
    "count": whole(1, 9),
    "minutes": whole(5, 120),
    "days": whole(1, 14),
    "percent": whole(0, 100),
    "money": number(12.5, 40, 99.9, 250, 1200, 18.75),
    "degrees": number(18, 19.5, 21, 22.5),
    "mass": number(0.5, 2, 7.25, 31),
    "flag": ({"type": "boolean"}, (True, False)),
    "cabin": choice("economy", "premium", "business"),
    "units": choice("celsius", "fahrenheit"),
    "currency": choice("EUR", "USD", "JPY", "KES", "BRL"),
    "level": choice("low", "normal", "high", "urgent"),
    "state": choice("open", "waiting", "done"),
    "speed": choice("standard", "express"),
    "room": choice("kitchen", "bedroom", "hall", "office", "garage"),
    "cuisine": choice("thai", "italian", "ethiopian", "mexican"),
    "branch": text("main", "release-2", "fix-login", "parser"),
    "file": text("src/parser.py", "lib/cache.rs", "docs/install.md", "tests/test_login.py"),
    "table": text("orders", "customers", "payments", "shipments"),
    "restaurant": text("The Blue Fig", "Casa Rosa", "Lantern House", "Olive Court"),
    "product": text("desk lamp", "rain jacket", "coffee grinder", "bicycle helmet", "tea pot"),
    "song": text("Northern Light", "Paper Boats", "Slow River", "Glass Garden"),
    "topic": text("solar roofs", "sleep", "tidal power", "bread yeast", "honey bees"),
    "medicine": text("ibuprofen", "cetirizine", "metformin"),
    "subject": text("Minutes of the meeting", "New prices", "Your visit", "Invoice of May"),
    "sentence": text("I am ten minutes late.", "The parcel has come.", "Please call me back."),
    "column": text("price", "tax", "weight", "discount"),
    "company": text("Brightwell", "Nordkap Foods", "Acme Tools", "Sunfield"),
    "language": choice("de", "fr", "ja", "pt"),
    "order": code("O"),
    "ticket": code("T"),
    "booking": code("B"),
    "invoice": code("I"),
    "patient": code("P"),
    "parcel": code("L"),
    "phone": code("555"),
}
VALUES["cities"] = some("city")
VALUES["people"] = some("person")
VALUES["products"] = some("product")
VALUES["address"] = record(street="street", zip="zip", city="city")
VALUES["line"] = record(product="product", quantity="count")
VALUES["lines"] = (
    {"type": "array", "items": VALUES["line"][0], "minItems": 1},
    lambda draw: [draw_value(draw, "line") for _ in range(draw.choice([1, 2]))],
)


def draw_value(draw, kind):
    _, values = VALUES[kind]
    return values(draw) if callable(values) else draw.choice(list(values))


def words(value):
    """As a person writes a value."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " and ".join(words(part) for part in value)
    if isinstance(value, dict):
        return ", ".join(words(part) for part in value.values())
    return str(value)


# ---- tools: name | what it does | arguments, `?` optional | what it gives | a question that needs it

DOMAINS = {
    "travel": """
search_flights | Finds flights between two cities | origin:city destination:city date:date cabin?:cabin | booking:booking price:money | Which flights go from {origin} to {destination} on {date}?
book_flight | Books a flight that was found | booking:booking passengers:people | booking:booking | Book flight {booking} for {passengers}.
cancel_booking | Cancels a booking | booking:booking refund?:flag | refund:money | Please cancel the booking {booking}.
find_hotel | Finds a hotel in a city | city:city arrival:date nights:days most?:money | booking:booking price:money | I need a hotel in {city} from {arrival} for {nights} nights.
get_weather | Tells the weather of a city | city:city days?:days units?:units | degrees:degrees rain:percent | What will the weather be like in {city} in {units}?
plan_route | Plans a route over several cities | cities:cities start:date | days:days | Plan a route over {cities} that starts on {start}.
""",
    "shop": """
search_products | Finds products by name | query:product most?:money | product:product price:money | Do you have a {query} below {most}?
get_order | Tells the state of an order | order:order | state:state parcel:parcel | Where is my order {order}?
find_order | Finds the latest order of a customer | customer:person | order:order date:date | What did {customer} order last?
cancel_order | Cancels an order | order:order reason?:sentence | refund:money | Cancel the order {order}.
place_order | Orders products to an address | lines:lines address:address speed:speed | order:order price:money | Order {lines} to {address} by {speed} delivery.
change_stock | Sets how many of a product are in stock | product:product count:count | count:count | Set the stock of {product} to {count}.
""",
    "office": """
send_mail | Sends a mail | to:people subject:subject body:sentence level?:level | time:time | Mail {to} with the subject "{subject}": {body}
create_event | Puts a meeting into the calendar | title:subject date:date time:time minutes:minutes guests?:people | booking:booking | Put "{title}" into my calendar on {date} at {time} for {minutes} minutes.
find_free_time | Finds a time at which people are free | people:people date:date minutes:minutes | time:time | When are {people} free on {date} for {minutes} minutes?
set_reminder | Reminds at a time | text:sentence date:date time:time | booking:booking | Remind me on {date} at {time}: {text}
find_contact | Finds mail and phone of a person | name:person | phone:phone | What is the phone number of {name}?
translate_text | Translates a text | text:sentence target:language | text:sentence | Use the translation tool: "{text}" into {target}.
""",
    "support": """
create_ticket | Opens a ticket | title:subject level:level customer:person | ticket:ticket | Open a ticket of level {level} for {customer}: {title}
get_ticket | Shows a ticket | ticket:ticket | state:state customer:person | What is the state of ticket {ticket}?
close_ticket | Closes a ticket | ticket:ticket note?:sentence | state:state | Close ticket {ticket}.
list_tickets | Lists tickets by state | state:state level?:level most?:count | ticket:ticket | Show me {most} tickets that are {state}.
assign_ticket | Gives a ticket to a person | ticket:ticket to:person | state:state | Give ticket {ticket} to {to}.
find_ticket | Finds the ticket of a customer | customer:person | ticket:ticket | Which ticket does {customer} have?
""",
    "home": """
set_temperature | Sets the temperature of a room | room:room degrees:degrees | degrees:degrees | Heat the {room} to {degrees} degrees.
switch_light | Switches the light of a room | room:room percent:percent on?:flag | on:flag | Set the light in the {room} to {percent} percent.
read_sensor | Reads the sensor of a room | room:room | degrees:degrees rain:percent | How warm is it in the {room}?
start_timer | Starts a timer | minutes:minutes name?:subject | time:time | Start a timer of {minutes} minutes.
play_music | Plays a song in a room | song:song room?:room volume?:percent | song:song | Play {song} in the {room}.
lock_doors | Locks or opens the doors | locked:flag rooms?:room | locked:flag | Are the doors to be locked? {locked}. Please see to it.
""",
    "code": """
read_file | Reads a file of the repository | path:file first_line?:count | text:sentence | What does {path} say?
search_code | Finds a text in the repository | text:table path?:file | path:file line:minutes | Where is "{text}" used in the code?
run_tests | Runs the tests of a file | path:file branch?:branch | failed:count | Run the tests of {path} on {branch}.
create_branch | Makes a branch | name:branch from:branch | name:branch | Make a branch {name} from {from}.
open_review | Asks people for a review | branch:branch title:subject reviewers:people | ticket:ticket | Ask {reviewers} for a review of {branch} with the title "{title}".
revert_file | Brings a file back to how a branch has it | path:file branch:branch | path:file | Bring {path} back to how it is in {branch}.
""",
    "data": """
count_rows | Counts the rows of a table | table:table since?:date | rows:minutes | How many rows does {table} have since {since}?
sum_column | Sums a column of a table | table:table column:column from:date to:date | sum:money | Sum {column} of {table} from {from} to {to}.
export_table | Exports a table to people | table:table to:people | path:file | Export {table} to {to}.
describe_table | Tells the columns of a table | table:table | columns:count | Which columns does {table} have?
draw_chart | Draws a chart of a table | table:table title:subject wide?:flag | path:file | Draw a chart of {table} with the title "{title}".
schedule_query | Runs a query each day | table:table time:time days:days | booking:booking | Query {table} each day at {time} for {days} days.
""",
    "money": """
convert_money | Converts an amount by today's rate | amount:money from:currency to:currency | amount:money | How much are {amount} {from} in {to} today?
get_share_price | Tells the price of a share | company:company currency?:currency | price:money | What does a share of {company} cost in {currency}?
pay_invoice | Pays an invoice | invoice:invoice amount:money currency:currency | time:time | Pay {amount} {currency} for invoice {invoice}.
find_invoice | Finds the open invoice of a company | company:company | invoice:invoice amount:money | Which invoice of {company} is open?
set_budget | Limits what is spent | topic:topic amount:money currency:currency days?:days | amount:money | Limit what we spend on {topic} to {amount} {currency}.
split_bill | Splits a bill among people | amount:money people:people tip?:percent | amount:money | Split {amount} among {people} with {tip} percent tip.
""",
    "health": """
book_visit | Books a visit at the doctor's | patient:patient date:date time:time urgent?:flag | booking:booking | Book a visit for patient {patient} on {date} at {time}.
find_patient | Finds the number of a patient | name:person | patient:patient | What number does the patient {name} have?
add_medicine | Adds a medicine to a patient's plan | patient:patient medicine:medicine times_a_day:count | medicine:medicine | Patient {patient} takes {medicine} {times_a_day} times a day from now on.
log_weight | Writes down a weight | patient:patient kilograms:mass date:date | kilograms:mass | Patient {patient} weighed {kilograms} kg on {date}.
check_interaction | Tells whether medicines go together | medicine:medicine with:medicine | level:level | May {medicine} be taken with {with}? Check it.
list_visits | Lists the visits of a day | date:date most?:count | patient:patient time:time | Who comes on {date}?
""",
    "parcels": """
track_parcel | Tells where a parcel is | parcel:parcel | city:city date:date | Where is parcel {parcel}?
send_parcel | Sends a parcel | from:address to:address kilograms:mass speed:speed | parcel:parcel price:money | Send {kilograms} kg by {speed} from {from} to {to}.
get_postage | Tells what a parcel costs | kilograms:mass to:city speed?:speed | price:money | What does a parcel of {kilograms} kg to {to} cost?
find_parcel | Finds the parcel of a person | receiver:person | parcel:parcel | Which parcel is on its way to {receiver}?
change_delivery | Changes the day of a delivery | parcel:parcel date:date note?:sentence | date:date | Deliver parcel {parcel} on {date}.
reserve_table | Reserves a table for the drivers' lunch | restaurant:restaurant people:count cuisine?:cuisine time:time | booking:booking | Reserve a table for {people} at {restaurant} at {time}.
""",
}

# The second tool needs what the first one gives: domain, first, second, member, question.
CHAINS = [
    ("shop", "find_order", "cancel_order", "order", "Cancel the latest order of {customer}."),
    ("support", "find_ticket", "close_ticket", "ticket", "Close the ticket of {customer}."),
    ("travel", "search_flights", "book_flight", "booking", "Book a flight from {origin} to {destination} on {date} for {passengers}."),
    ("money", "find_invoice", "pay_invoice", "invoice", "Pay {amount} {currency} for the open invoice of {company}."),
    ("health", "find_patient", "book_visit", "patient", "Book a visit for {name} on {date} at {time}."),
    ("parcels", "find_parcel", "change_delivery", "parcel", "Deliver the parcel of {receiver} on {date}."),
]  # fmt: skip

# Questions that need no tool, whatever tools there are.
PLAIN = [
    "Write two lines of verse about {topic}.",
    "In one sentence: why do people care about {topic}?",
    "What is the plural of the English word 'mouse'?",
    "Name three words that rhyme with 'stone'.",
    "Is 'their' or 'there' right in: ___ house is red?",
    "Thank you, that was all.",
    "Hello! Who are you?",
    "Give me a name for a cat that likes {topic}.",
    "Explain to a child what {topic} has to do with science. Two sentences.",
    "Which is larger, 17 or 71?",
    "Say this more politely: {sentence}",
    "What does the saying 'a bird in the hand' mean?",
]

# Questions in languages that are rarer in training data; text is due in that language, and none of them has Cyrillic letters.
LANGUAGES = [
    "Explique em duas frases por que o céu é azul.",
    "Wyjaśnij w dwóch zdaniach, dlaczego niebo jest niebieskie.",
    "Gökyüzü neden mavidir? İki cümleyle açıkla.",
    "Hãy giải thích trong hai câu vì sao bầu trời có màu xanh.",
    "Jelaskan dalam dua kalimat mengapa langit berwarna biru.",
    "Förklara i två meningar varför himlen är blå.",
    "Vysvětli dvěma větami, proč je obloha modrá.",
    "Selitä kahdella lauseella, miksi taivas on sininen.",
    "Magyarázd el két mondatban, miért kék az ég.",
    "Εξήγησε με δύο προτάσεις γιατί ο ουρανός είναι μπλε.",
    "Explică în două propoziții de ce cerul este albastru.",
    "Leg in twee zinnen uit waarom de lucht blauw is.",
]

SYSTEMS = [
    None,
    "You are a helpful assistant. Call a tool when it helps, and answer with text when no tool is needed.",
    "You are the assistant of a company ({domain}). Today is {date}. Never guess what a tool can tell.",
    "You are an agent. Work step by step: call the tools that you need, read their results, then report in one sentence.",
]


@dataclasses.dataclass
class Tool:
    name: str
    about: str
    arguments: dict  # name: kind of value
    optional: set
    gives: dict  # name: kind of value
    question: str

    def declaration(self):
        properties = {name: dict(VALUES[kind][0]) for name, kind in self.arguments.items()}
        for name, kind in self.arguments.items():
            properties[name]["description"] = f"{name} ({kind})" if kind != name else name
        parameters = {
            "type": "object",
            "properties": properties,
            "required": [name for name in self.arguments if name not in self.optional],
            "additionalProperties": False,
        }
        about = {"name": self.name, "description": self.about, "parameters": parameters}
        return {"type": "function", "function": about}

    def draw_arguments(self, draw, question):
        """Those that the question names, and no others: it asks for nothing else."""
        return {
            name: draw_value(draw, kind)
            for name, kind in self.arguments.items()
            if name not in self.optional or f"{{{name}}}" in question
        }


def read_tool(line):
    name, about, arguments, gives, question = (part.strip() for part in line.split(" | "))
    pairs = [pair.split(":") for pair in arguments.split()]
    return Tool(
        name=name,
        about=about,
        arguments={key.rstrip("?"): kind for key, kind in pairs},
        optional={key.rstrip("?") for key, _ in pairs if key.endswith("?")},
        gives=dict(pair.split(":") for pair in gives.split()),
        question=question,
    )


TOOLS = {
    domain: {tool.name: tool for tool in map(read_tool, lines.strip().splitlines())}
    for domain, lines in DOMAINS.items()
}


@dataclasses.dataclass
class Prompt:
    id: str
    category: str
    request: dict  # messages and tools
    due: list = dataclasses.field(default_factory=list)  # [{"name", "arguments"}]; empty: text


# ---- shapes: each returns the messages, the tools that the request must have, and the calls that are due


def asked(question, arguments):
    return question.format(**{name: words(value) for name, value in arguments.items()})


def fill(draw, question):
    """A plain question with values drawn."""
    return question.format(topic=draw_value(draw, "topic"), sentence=draw_value(draw, "sentence"))


def user(content):
    return {"role": "user", "content": content}


def assistant(content):
    return {"role": "assistant", "content": content}


def calls_message(draw, calls):
    ids = [f"call_{draw.randrange(16**12):012x}" for _ in calls]
    called = [
        {
            "id": id,
            "type": "function",
            "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])},
        }
        for id, call in zip(ids, calls)
    ]
    return {"role": "assistant", "content": None, "tool_calls": called}, ids


def result_of(draw, tool, **known):
    return {name: draw_value(draw, kind) for name, kind in tool.gives.items()} | known


def done_turn(draw, tool):
    """A question, its call, the result and the answer: a turn that lies behind."""
    arguments = tool.draw_arguments(draw, tool.question)
    message, [id] = calls_message(draw, [{"name": tool.name, "arguments": arguments}])
    result = result_of(draw, tool)
    return [
        user(asked(tool.question, arguments)),
        message,
        {"role": "tool", "tool_call_id": id, "content": json.dumps(result)},
        assistant("Done: " + ", ".join(f"{name} {words(result[name])}" for name in result) + "."),
    ]


def single(draw, tools):
    tool = draw.choice(tools)
    arguments = tool.draw_arguments(draw, tool.question)
    due = [{"name": tool.name, "arguments": arguments}]
    return [user(asked(tool.question, arguments))], [tool], due


def parallel(draw, tools):
    pair = draw.sample(tools, 2)
    due = [
        {"name": tool.name, "arguments": tool.draw_arguments(draw, tool.question)} for tool in pair
    ]
    questions = [asked(tool.question, call["arguments"]) for tool, call in zip(pair, due)]
    return [user("Two things at once. " + " And: ".join(questions))], pair, due


def plain(draw, tools):
    return [user(fill(draw, draw.choice(PLAIN)))], [], []


def language(draw, tools):
    return [user(draw.choice(LANGUAGES))], [], []


def later_turn(draw, tools):
    before = draw.sample(tools, draw.choice([1, 2]))
    messages = [message for tool in before for message in done_turn(draw, tool)]
    asks, needed, due = single(draw, tools)
    return messages + asks, before + needed, due


def later_plain(draw, tools):
    before = draw.sample(tools, draw.choice([1, 2]))
    messages = [message for tool in before for message in done_turn(draw, tool)]
    return messages + [user(fill(draw, draw.choice(PLAIN)))], before, []


def after_result(draw, tools):
    """The result of the only call that was due has come: text is due."""
    tool = draw.choice(tools)
    return done_turn(draw, tool)[:-1], [tool], []


def chain(draw, tools):
    """The first of two steps is done: the second call is due, with what the first one gave."""
    domain, first, second, member, question = draw.choice(CHAINS)
    first, second = TOOLS[domain][first], TOOLS[domain][second]
    given = draw_value(draw, member)
    due = second.draw_arguments(draw, question) | {member: given}
    found = first.draw_arguments(draw, question)
    found |= {name: due[name] for name in found if name in due}
    message, [id] = calls_message(draw, [{"name": first.name, "arguments": found}])
    result = json.dumps(result_of(draw, first, **{member: given}))
    messages = [
        user(asked(question, found | due)),
        message,
        {"role": "tool", "tool_call_id": id, "content": result},
    ]
    return messages, [first, second], [{"name": second.name, "arguments": due}]


# How often each shape is drawn: a call is due in two of three.
SHAPES = [
    (single, 30),
    (parallel, 8),
    (later_turn, 18),
    (chain, 10),
    (plain, 12),
    (later_plain, 8),
    (after_result, 9),
    (language, 5),
]


def make_prompt(seed, number):
    draw = random.Random(f"{seed}/{number}")
    shape = draw.choices([shape for shape, _ in SHAPES], [weight for _, weight in SHAPES])[0]
    domain = draw.choice(list(TOOLS))
    messages, needed, due = shape(draw, list(TOOLS[domain].values()))

    # The tools of the domain first, then those of others, until there are enough.
    others = [tool for name in TOOLS if name != domain for tool in TOOLS[name].values()]
    near = list(TOOLS[domain].values())
    draw.shuffle(near)
    draw.shuffle(others)
    wanted = max(draw.randrange(1, 21), len(needed))
    have = {tool.name: tool for tool in [*needed, *near, *others]}
    declared = list(have.values())[:wanted]
    draw.shuffle(declared)

    system = draw.choice(SYSTEMS)
    if system is not None:
        filled = system.format(domain=domain, date=draw_value(draw, "date"))
        messages = [{"role": "system", "content": filled}, *messages]
    request = {"messages": messages, "tools": [tool.declaration() for tool in declared]}
    return Prompt(f"{seed}-{number}", shape.__name__, request, due)
