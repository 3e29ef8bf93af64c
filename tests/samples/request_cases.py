"""Requests with tools, and the calls that are right, in the shape of the Berkeley Function-Calling Leaderboard's rows. `expected` is
[] where no tool fits, and null where a call is wanted but which one is not said."""
from format_cases import FLAG, INTEGER, NUMBER, TEXT, tool

CHOICE = {"type": "string", "enum": ["walk", "bus", "train"]}
LIST = {"type": "array", "items": {"type": "integer"}}
CONVERT = tool("convert_length", ["value", "from_unit", "to_unit"], value=NUMBER, from_unit=TEXT, to_unit=TEXT)
ROUTE = tool("find_route", ["start", "goal"], start=TEXT, goal=TEXT, by=CHOICE, stops={"type": "array", "items": TEXT})
TIMER = tool("start_timer", ["minutes"], minutes=INTEGER, label=TEXT, repeats=FLAG)
SORT = tool("sort_numbers", ["numbers"], numbers=LIST, descending=FLAG)
PLANT = tool("add_plant", ["plant"], plant={"type": "object", "required": ["name"], "properties": {
    "name": TEXT, "height_cm": NUMBER, "place": {"type": "object", "properties": {"row": INTEGER, "column": INTEGER}}}})
MAIL = tool("mail.send", ["to", "subject"], to={"type": "array", "items": TEXT}, subject=TEXT, urgent=FLAG)
ALL = [CONVERT, ROUTE, TIMER, SORT, PLANT, MAIL]

# (category, tools, question, expected)
CASES = [
    ("simple", [CONVERT], "How many miles are 42.195 kilometres?", [("convert_length", {"value": 42.195, "from_unit": "km", "to_unit": "mi"})]),
    ("simple", [TIMER], "Wake me in 20 minutes.", [("start_timer", {"minutes": 20})]),
    ("simple", [TIMER], "Every 45 minutes remind me to 'stretch'.", [("start_timer", {"minutes": 45, "label": "stretch", "repeats": True})]),
    ("simple", [SORT], "Sort 3, -1 and 12 from the largest down.", [("sort_numbers", {"numbers": [3, -1, 12], "descending": True})]),
    ("simple", [PLANT], "Note a rose of 35.5 cm in row 2, column 7.",
     [("add_plant", {"plant": {"name": "rose", "height_cm": 35.5, "place": {"row": 2, "column": 7}}})]),
    ("simple", [ROUTE], "Take me from Łódź to São Paulo by train.", [("find_route", {"start": "Łódź", "goal": "São Paulo", "by": "train"})]),
    ("simple", [MAIL], 'Write to ann@example.org and bo@example.org, subject "Lunch?".',
     [("mail.send", {"to": ["ann@example.org", "bo@example.org"], "subject": "Lunch?"})]),
    ("multiple", ALL, "Set a timer for 3 minutes.", [("start_timer", {"minutes": 3})]),
    ("multiple", ALL, "What is the way from the station to the museum over the bridge, on foot?",
     [("find_route", {"start": "station", "goal": "museum", "by": "walk", "stops": ["bridge"]})]),
    ("multiple", [CONVERT, SORT], "Sort 9, 8, 7.", [("sort_numbers", {"numbers": [9, 8, 7]})]),
    ("parallel", [TIMER], "Timers for the eggs, 6 minutes, and the tea, 4 minutes.",
     [("start_timer", {"minutes": 6, "label": "eggs"}), ("start_timer", {"minutes": 4, "label": "tea"})]),
    ("parallel", [CONVERT], "1 inch and 1 foot in centimetres.",
     [("convert_length", {"value": 1, "from_unit": "in", "to_unit": "cm"}), ("convert_length", {"value": 1, "from_unit": "ft", "to_unit": "cm"})]),
    ("parallel", [PLANT], "Note three plants: mint, sage, thyme.", [("add_plant", {"plant": {"name": name}}) for name in ("mint", "sage", "thyme")]),
    ("parallel_multiple", ALL, "Sort 2, 1 and start a timer for a minute.",
     [("sort_numbers", {"numbers": [2, 1]}), ("start_timer", {"minutes": 1})]),
    ("parallel_multiple", ALL, "Convert 10 miles to km, then mail it to me@example.org as urgent, subject \"10 miles\".",
     [("convert_length", {"value": 10, "from_unit": "mi", "to_unit": "km"}),
      ("mail.send", {"to": ["me@example.org"], "subject": "10 miles", "urgent": True})]),
    ("irrelevance", [CONVERT], "Who painted the ceiling of the chapel?", []),
    ("irrelevance", [SORT, TIMER], "Is a tomato a fruit?", []),
    ("irrelevance", [MAIL], "Tell me a joke about bees.", []),
    ("relevance", [ROUTE, TIMER], "I have to be at the airport soon.", None),
    ("relevance", ALL, "How far is it in metres?", None),
]


def rows():
    for number, (category, tools, question, expected) in enumerate(CASES):
        yield {"id": f"own_{category}_{number}", "category": category, "tools": tools, "messages": [{"role": "user", "content": question}],
               "expected": expected if expected is None else [{"name": name, "arguments": arguments} for name, arguments in expected]}
