"""What the vendors' verifiers measure, on prompts of our own (bench/vendor_prompts.py): does a server decide, form and end calls as the
same model does where it is served right?

    .venv/bin/python bench/vendor_verify.py --url http://127.0.0.1:8000 --model NAME --requests 2000 --out here.jsonl
    .venv/bin/python bench/vendor_verify.py --out there.jsonl --against here.jsonl        # two runs, nothing is asked

Each answer is a line of --out, so a run that was broken off goes on where it was: lines that are there are not asked again, but for
those that failed. Measures, as far as it can be done over Chat Completions, what two public verifiers define:
https://github.com/MoonshotAI/K2-Vendor-Verifier (trigger F1, schema accuracy) and https://github.com/MiniMax-AI/MiniMax-Provider-Verifier
(success, finish reasons, only reasoning, language). The key is in the environment variable that --api-key-env names.
docs/verify.md#vendor-verifiers says how each figure is made.

Exit status 0: there are answers. 1: no request was answered, or the first ten failed. 2: the command line or a file of it is wrong.
130 and 143: Ctrl-C or SIGTERM ended the run; what it had asked until then is kept.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import hashlib
import http.client
import json
import math
import os
import pathlib
import re
import signal
import sys
import threading
import time
import urllib.parse

import jsonschema
from vendor_prompts import make_prompt

# Markers of the formats of calls and chats: a text must not have them.
MARKERS = re.compile(
    r"<\|[a-z_▁|]+\|>|</?tool_calls?>|\[TOOL_CALLS\]|</?think>|<[|｜][^>\n]{1,40}[|｜]>|<minimax:tool_call>"
)
CYRILLIC = re.compile("[\u0400-\u04ff]")
BUSY = {408, 409, 425, 429, 500, 502, 503, 504, 529}
LONGEST_PAUSE_S = 60  # before a busy server is asked again, whatever its Retry-After says
MOST_FAILURES = 10  # in a row, while nothing has been answered: then the run gives up
MOST_CUT = 0.01  # share of answers that end by the limit of tokens; above it the figures are told to be about the limit


# ---- asking


class Failure(Exception):
    """There is no answer: `status` is 0 where none came."""

    def __init__(self, words, status=0, wait_s=None):
        super().__init__(words)
        self.status, self.wait_s = status, wait_s


class Reader:
    """Takes from an answer what has the kind that it must have. What has another is left out, or is made a text, and is a flaw: so
    an answer has a known shape from here on."""

    def __init__(self):
        self.flaws = set()

    def take(self, value, kind):
        if isinstance(value, kind):
            return value
        if value is not None:
            self.flaws.add("shape")
        return kind()

    def text(self, value, flaw="shape"):
        if isinstance(value, str):
            return value
        if value is None:
            return ""
        self.flaws.add(flaw)
        return json.dumps(value, ensure_ascii=False)

    def call(self, value):
        call = self.take(value, dict)
        function = self.take(call.get("function"), dict)
        arguments = function.get("arguments")
        if arguments is not None:
            arguments = self.text(arguments, "arguments_no_text")
        name = self.take(function.get("name"), str)
        return {
            "id": self.take(call.get("id"), str),
            "function": {"name": name, "arguments": arguments},
        }

    def message(self, value):
        message = self.take(value, dict)
        texts = {name: self.text(message.get(name)) for name in TEXTS}
        calls = [self.call(call) for call in self.take(message.get("tool_calls"), list)]
        kept = {name: text for name, text in texts.items() if text}
        return kept | ({"tool_calls": calls} if calls else {})

    def usage(self, value):
        usage = self.take(value, dict)
        counts = {name: usage.get(name) for name in ("prompt_tokens", "completion_tokens")}
        if any(count is not None and not is_count(count) for count in counts.values()):
            self.flaws.add("shape")
        return {name: count for name, count in counts.items() if is_count(count)}


TEXTS = ("content", "reasoning", "reasoning_content")


def is_count(value):
    return type(value) is int and 0 <= value < 2**53


def checked(document):
    """An answer of status 200, or an event of one. Raises Failure where it is an error."""
    if not isinstance(document, dict):
        raise Failure(f"the answer is no object: {json.dumps(document)[:200]}", 200)
    if document.get("error"):
        raise Failure(f"the answer is an error: {json.dumps(document)[:400]}", 200)
    return document


def fold(lines, begun, reader):
    """A stream as one message: (choice, usage, ms to the first piece, whether its end was told)."""
    message, calls, finish, usage, first_ms, is_ended = {}, {}, None, None, None, False
    has_choice = False
    for line in lines:
        line = line.decode("utf-8", "replace").strip()
        if not line.startswith("data:"):
            continue
        data = line[5:].strip()
        if data == "[DONE]":
            is_ended = True
            break
        try:
            chunk = checked(json.loads(data))
        except json.JSONDecodeError:
            raise Failure(f"an event is no JSON: {data[:200]}", 200) from None
        usage = chunk.get("usage") or usage
        for choice in reader.take(chunk.get("choices"), list):
            has_choice = True
            choice = reader.take(choice, dict)
            delta = reader.take(choice.get("delta"), dict)
            finish = choice.get("finish_reason") or finish
            for name in TEXTS:
                if delta.get(name):
                    message[name] = message.get(name, "") + reader.text(delta[name])
            for part in reader.take(delta.get("tool_calls"), list):
                add_part(calls, reader.take(part, dict), reader)
            if first_ms is None and (message or calls):
                first_ms = round((time.monotonic() - begun) * 1000)
    if not has_choice:
        raise Failure("the stream has no choices", 200)
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return {"message": message, "finish_reason": finish}, usage, first_ms, is_ended


def add_part(calls, part, reader):
    """Adds a piece of a call. Both verifiers take the last name; a name that comes again is a flaw."""
    call = calls.setdefault(
        reader.take(part.get("index"), int), {"function": {"name": "", "arguments": ""}}
    )
    call["id"] = part.get("id") or call.get("id")
    function, into = reader.take(part.get("function"), dict), call["function"]
    name = reader.take(function.get("name"), str)
    if name and into["name"]:
        reader.flaws.add("name_repeated")
    into["name"] = name or into["name"]
    into["arguments"] += reader.text(function.get("arguments"), "arguments_no_text")


class Server:
    """One connection for each thread."""

    def __init__(self, url, key, timeout_s):
        url = url.rstrip("/")
        self.url = urllib.parse.urlsplit(url if url.endswith("/v1") else url + "/v1")
        self.timeout_s = timeout_s
        self.headers = {"content-type": "application/json"}
        if key:
            self.headers["authorization"] = f"Bearer {key}"
        self.local = threading.local()

    def connection(self):
        if not hasattr(self.local, "connection"):
            kind = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
            self.local.connection = kind[self.url.scheme](self.url.netloc, timeout=self.timeout_s)
        return self.local.connection

    def ask(self, body):
        """Returns what is kept of an answer. Raises Failure."""
        begun = time.monotonic()
        reader = Reader()
        try:
            answer = self.send(body)
            is_ended, first_ms = True, None
            if body.get("stream"):
                choice, usage, first_ms, is_ended = fold(answer, begun, reader)
                answer.read()
            else:
                document = checked(json.loads(answer.read()))
                choices = reader.take(document.get("choices"), list)
                if not choices or not isinstance(choices[0], dict):
                    raise Failure(f"the answer has no choice: {json.dumps(document)[:400]}", 200)
                choice, usage = choices[0], document.get("usage")
            kept = {
                "message": reader.message(choice.get("message")),
                "finish_reason": reader.take(choice.get("finish_reason"), str) or None,
                "usage": reader.usage(usage),
            }
        except Failure:
            self.close()
            raise
        except Exception as error:  # whatever an answer is, it ends no run
            self.close()
            raise Failure(f"{type(error).__name__}: {error}") from None
        return kept | {
            "flaws": sorted(reader.flaws),
            "is_ended": is_ended,
            "first_ms": first_ms,
            "ms": round((time.monotonic() - begun) * 1000),
        }

    def send(self, body):
        connection = self.connection()
        connection.request(
            "POST", self.url.path + "/chat/completions", json.dumps(body), self.headers
        )
        answer = connection.getresponse()
        if answer.status != 200:
            words = answer.read().decode("utf-8", "replace")[:400]
            wait = answer.headers.get("retry-after", "")
            is_seconds = re.fullmatch("[0-9]{1,9}", wait)
            raise Failure(words, answer.status, int(wait) if is_seconds else None)
        return answer

    def close(self):
        if hasattr(self.local, "connection"):
            self.local.connection.close()


def body_of(prompt, number, options):
    body = {"model": options.model, **prompt.request}
    for name in ("max_tokens", "temperature"):
        if getattr(options, name) is not None:
            body[name] = getattr(options, name)
    if number % 2:  # every other one is a stream
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body | options.extra


def ask_one(server, number, options, is_over):
    """The line of one request. A server that is busy is asked again, each time later."""
    prompt = make_prompt(options.seed, number)
    body = body_of(prompt, number, options)
    line = {"number": number, "category": prompt.category, "stream": bool(body.get("stream"))}
    line["hash"] = hash_of(prompt)
    for attempt in range(options.retries + 1):
        try:
            return line | {"status": "ok", "tries": attempt + 1, **server.ask(body)}
        except Failure as failure:
            failed = {"status": "failed", "tries": attempt + 1, "http_status": failure.status}
            failed["error"] = str(failure)
            is_last = attempt == options.retries or failure.status not in {0, 200, *BUSY}
            pause = failure.wait_s if failure.wait_s is not None else 2**attempt
            if is_last or is_over.wait(min(pause, LONGEST_PAUSE_S)):
                break
    return line | failed


def hash_of(prompt):
    return hashlib.sha256(json.dumps(prompt.request).encode()).hexdigest()[:16]


# ---- judging


def judge_call(call, tools):
    """What is wrong with a call; None: nothing. As both verifiers do, by jsonschema and without `format`."""
    function = call.get("function") or {}
    arguments = function.get("arguments")
    schema = next(
        (
            tool["function"]["parameters"]
            for tool in tools
            if tool["function"]["name"] == function.get("name")
        ),
        None,
    )
    if schema is None:
        return "call_of_no_tool"
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
        is_valid = jsonschema.Draft202012Validator(schema).is_valid(value)
    except (ValueError, RecursionError):  # no JSON, or numbers or nesting beyond what Python reads
        return "arguments_not_json"
    return None if is_valid else "arguments_not_valid"


def judge(line, prompt):
    """What an answer is, for the figures, and its flaws: rules that hold whatever a model says. An answer that was cut by the
    limit of tokens is not blamed for what it lacks."""
    message, finish = line["message"], line["finish_reason"]
    calls = [call for call in message.get("tool_calls") or [] if isinstance(call, dict)]
    content = message.get("content") or ""
    is_cut = finish == "length"
    reasoning = message.get("reasoning") or message.get("reasoning_content") or ""
    wrong = [judge_call(call, prompt.request["tools"]) for call in calls]
    whole = wrong[:-1] if is_cut else wrong  # an answer that was cut ends in a call that was
    flaws = {flaw for flaw in whole if flaw} | set(line.get("flaws", []))
    only_reasoning = bool(reasoning and not content and not calls and not is_cut)
    rules = {
        "finish_not_calls": calls and finish not in ("tool_calls", "length"),
        "finish_calls_without_call": finish == "tool_calls" and not calls,
        "finish_unknown": finish not in ("stop", "length", "tool_calls", "content_filter"),
        "call_without_id": any(not call.get("id") for call in calls),
        "call_ids_equal": len({call.get("id") for call in calls}) < len(calls),
        "arguments_no_text": any(
            not isinstance((call.get("function") or {}).get("arguments"), str) for call in calls
        ),
        "markers_in_text": MARKERS.search(content),
        "only_reasoning": only_reasoning,
        "empty": not reasoning and not content and not calls and not is_cut,
        "usage_missing": not line["usage"],
        "end_not_told": not line["is_ended"],
    }
    flaws |= {name for name, holds in rules.items() if holds}
    return {
        "finish": finish or "missing",
        "triggers": finish == "tool_calls",
        "has_calls": bool(calls),
        "is_due": bool(prompt.due),
        "is_valid": bool(calls) and not any(wrong),
        "is_cut": is_cut,
        "only_reasoning": only_reasoning,
        "language": prompt.category == "language" and bool(content),
        "language_kept": not CYRILLIC.search(content),
        "flaws": sorted(flaws),
    }


# ---- figures


def wilson(count, of, z=1.959964):
    """Wilson's interval of a share, at 95 %; (0, 1) where nothing was counted."""
    if of == 0:
        return 0.0, 1.0
    share, square = count / of, z * z
    middle = (share + square / (2 * of)) / (1 + square / of)
    half = z / (1 + square / of) * math.sqrt(share * (1 - share) / of + square / (4 * of * of))
    return max(0.0, middle - half), min(1.0, middle + half)


def share(count, of):
    low, high = wilson(count, of)
    return {
        "count": count,
        "of": of,
        "share": count / of if of else None,
        "low": low,
        "high": high,
    }


def f1_of(pairs):
    """`pairs` are (whether it triggers, whether it should). F1 is 2J / (1 + J), where J = TP / (TP + FP + FN) is a share: so the
    interval of F1 is made from Wilson's of J."""
    count = collections.Counter((bool(is_there), bool(is_due)) for is_there, is_due in pairs)
    tp, fp, fn = count[True, True], count[True, False], count[False, True]
    low, high = (2 * bound / (1 + bound) for bound in wilson(tp, tp + fp + fn))
    return {
        "tp": tp,
        "fp": fp,
        "fn": fn,
        "tn": count[False, False],
        "precision": share(tp, tp + fp),
        "recall": share(tp, tp + fn),
        "f1": {
            "share": 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else None,
            "low": low,
            "high": high,
        },
    }


def summary_of(run, lines, prices=(None, None)):
    judged = {
        number: judge(line, make_prompt(run["seed"], number))
        for number, line in lines.items()
        if line["status"] == "ok"
    }
    answers = list(judged.values())
    triggers = [answer for answer in answers if answer["triggers"]]
    languages = [answer for answer in answers if answer["language"]]
    whole = [answer for answer in answers if not answer["is_cut"]]
    usages = [line["usage"] or {} for line in lines.values() if line["status"] == "ok"]
    tokens = {
        "in": sum(usage.get("prompt_tokens") or 0 for usage in usages),
        "out": sum(usage.get("completion_tokens") or 0 for usage in usages),
    }
    flaws = collections.Counter(flaw for answer in answers for flaw in answer["flaws"])
    times = sorted(line["ms"] for line in lines.values() if line["status"] == "ok")
    return judged, {
        "run": run,
        "requests": len(lines),
        "query_success": share(len(answers), len(lines)),
        "finish_tool_calls": share(len(triggers), len(lines)),
        "schema_accuracy": share(sum(answer["is_valid"] for answer in triggers), len(triggers)),
        "not_only_reasoning": share(
            sum(not answer["only_reasoning"] for answer in whole), len(whole)
        ),
        "language_kept": share(
            sum(answer["language_kept"] for answer in languages), len(languages)
        ),
        "conforming": share(sum(not answer["flaws"] for answer in answers), len(answers)),
        "needed": f1_of((answer["has_calls"], answer["is_due"]) for answer in answers),
        "finish_reasons": dict(
            collections.Counter(answer["finish"] for answer in answers).most_common()
        ),
        "flaws": dict(flaws.most_common()),
        "tokens": tokens,
        "cost": cost_of(tokens, prices),
        "ms": {"median": times[len(times) // 2], "longest": times[-1]} if times else None,
    }


def cost_of(tokens, prices):
    if prices == (None, None):
        return None
    return (tokens["in"] * (prices[0] or 0) + tokens["out"] * (prices[1] or 0)) / 1e6


def compare(ours, theirs):
    """Over the requests that both have an answer to: `theirs` is the reference."""
    both = sorted(ours.keys() & theirs.keys())
    pairs = [(ours[number]["triggers"], theirs[number]["triggers"]) for number in both]
    agreed = sum(here == there for here, there in pairs)
    return {"requests": len(both), "agreement": share(agreed, len(both)), **f1_of(pairs)}


# ---- what is shown

FIGURES = [
    ("query_success", "answered"),
    ("finish_tool_calls", "finish_reason is tool_calls"),
    ("schema_accuracy", "schema accuracy"),
    ("not_only_reasoning", "not only reasoning"),
    ("language_kept", "language kept"),
    ("conforming", "no flaw"),
]


def percent(figure):
    if figure["share"] is None:
        return "-"
    return f"{figure['share']:.1%} ({figure['low']:.1%} to {figure['high']:.1%})"


def shown(summary, reference=None, comparison=None):
    columns = [summary] + ([reference] if reference else [])
    lines = [("", "this run", *(["reference"] if reference else []))]
    for name, label in FIGURES:
        counts = [f"{percent(each[name])}, {each[name]['of']}" for each in columns]
        lines.append((label, *counts))
    for name in ("precision", "recall", "f1"):
        lines.append((f"call where one is due: {name}", *(percent(each["needed"][name]) for each in columns)))  # fmt: skip
    for name in ("finish_reasons", "flaws"):
        counted = [", ".join(f"{key} {count}" for key, count in each[name].items()) or "-" for each in columns]  # fmt: skip
        lines.append((name.replace("_", " "), *counted))
    for each in columns:
        each["shown_tokens"] = f"{each['tokens']['in']} in, {each['tokens']['out']} out"
    lines.append(("tokens", *(each.pop("shown_tokens") for each in columns)))
    if summary["cost"] is not None:
        lines.append(("cost", f"{summary['cost']:.4f}"))
    width = max(len(line[0]) for line in lines)
    middle = max(len(line[1]) for line in lines) if reference else 0
    text = "\n".join(
        "  ".join([line[0].ljust(width), line[1].ljust(middle), *line[2:]]).rstrip()
        for line in lines
    )
    if comparison:
        text += (
            f"\n\nagainst the reference, {comparison['requests']} requests:"
            f"\n  trigger F1  {percent(comparison['f1'])}"
            f"\n  precision   {percent(comparison['precision'])}"
            f"\n  recall      {percent(comparison['recall'])}"
            f"\n  agreement   {percent(comparison['agreement'])}"
        )
    return text


class Progress:
    """One line that is overwritten on a terminal, else one each half a minute."""

    def __init__(self, total, done, prices):
        self.total, self.done, self.asked, self.prices = total, done, 0, prices
        self.failed, self.triggers, self.tokens = 0, 0, {"in": 0, "out": 0}
        self.begun = self.last = time.monotonic()

    def add(self, line):
        self.done += 1
        self.asked += 1
        self.failed += line["status"] != "ok"
        self.triggers += line.get("finish_reason") == "tool_calls"
        usage = line.get("usage") or {}
        self.tokens["in"] += usage.get("prompt_tokens") or 0
        self.tokens["out"] += usage.get("completion_tokens") or 0
        now = time.monotonic()
        if now - self.last > (0.2 if sys.stderr.isatty() else 30):
            self.last = now
            self.show()

    def show(self):
        rate = self.asked / max(time.monotonic() - self.begun, 1e-9)
        left = (self.total - self.done) / rate if rate else 0
        text = (
            f"{self.done}/{self.total}  failed {self.failed}  calls {self.triggers}/{self.asked}  "
            f"{rate:.1f}/s, {left / 60:.0f} min left  tokens {self.tokens['in']} in {self.tokens['out']} out"
        )
        cost = cost_of(self.tokens, self.prices)
        text += f"  cost {cost:.2f}" if cost is not None else ""
        is_terminal = sys.stderr.isatty()
        print(f"\r{text}\033[K" if is_terminal else text, end="" if is_terminal else "\n", file=sys.stderr, flush=True)  # fmt: skip


# ---- a run's file: a line about the run, then one for each answer


def read_run(path):
    """(what was asked, {number: line}). The last line of a number holds; a line that was cut is asked again. Lines are bytes up to
    a line feed: `splitlines` ends them at U+2028, too, and a run that was killed may end within a letter."""
    run, lines = None, {}
    for text in path.read_bytes().split(b"\n") if path.exists() else []:
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if not isinstance(line, dict):
            continue
        if "run" in line:
            run = line["run"]
        elif "number" in line:
            lines[line["number"]] = line
    return run, lines


def stale_number(run, lines):
    """The first request whose prompt is another today; None: all are the same."""
    is_stale = lambda number: lines[number].get("hash") != hash_of(make_prompt(run["seed"], number))
    return next((number for number in sorted(lines) if is_stale(number)), None)


def run_of(options):
    return {
        "url": options.url,
        "model": options.model,
        "seed": options.seed,
        "temperature": options.temperature,
        "max_tokens": options.max_tokens,
        "extra_body": options.extra_body,
    }


def ask_all(options, run, lines):
    """Asks what is missing, and adds to `lines`. Returns the exit status of a run that ended early, else 0."""
    missing = [
        number for number in range(options.requests) if lines.get(number, {}).get("status") != "ok"
    ]
    key = os.environ.get(options.api_key_env, "")
    server = Server(options.url, key, options.timeout)
    progress = Progress(
        options.requests, options.requests - len(missing), (options.price_in, options.price_out)
    )
    is_over, status = threading.Event(), 0

    def ask(number):
        return None if is_over.is_set() else ask_one(server, number, options, is_over)

    is_cut = options.out.exists() and options.out.read_bytes()[-1:] not in (b"", b"\n")
    with (
        ends_kindly(is_over) as signals,
        open(options.out, "a") as file,
        concurrent.futures.ThreadPoolExecutor(options.concurrency) as pool,
    ):
        if is_cut:
            file.write("\n")
        if not lines:
            file.write(json.dumps({"run": run}) + "\n")
            file.flush()
        futures = [pool.submit(ask, number) for number in missing]
        try:
            for future in concurrent.futures.as_completed(futures):
                line = future.result()
                if line is None:
                    continue
                file.write(json.dumps(line) + "\n")
                file.flush()
                lines[line["number"]] = line
                progress.add(line)
                if progress.failed == progress.asked == MOST_FAILURES:
                    is_over.set()
                    status = 1
                    print(f"\n{MOST_FAILURES} requests failed and none was answered; the last: {line['error']}", file=sys.stderr)  # fmt: skip
        except BaseException:  # such as a full disk: nothing more is asked
            is_over.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if progress.asked:
        progress.show()
        print(file=sys.stderr)
    return 128 + signals[0] if signals else status


@contextlib.contextmanager
def ends_kindly(is_over):
    """What is being asked is paid for: after Ctrl-C or SIGTERM it is waited for and kept. The second one ends the program at once.
    Yields the list of the signals that came."""
    came = []

    def end(number, frame):
        if came:
            os._exit(128 + number)
        came.append(number)
        is_over.set()
        os.write(2, b"\nwaiting for the answers that are under way; once more ends at once\n")

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def read_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--out", type=pathlib.Path, help="the answers, a line each")
    add(
        "--url",
        help="the server, with or without /v1; without it only what is in --out is summed up",
    )
    add("--model", default="", help="the model's name")
    add("--requests", type=int, default=2000)
    add("--seed", type=int, default=1, help="another seed is another set of prompts")
    add("--concurrency", type=int, default=4)
    add("--temperature", type=float, default=0.0, help="negative: the server's own")
    add("--max-tokens", type=int, default=1024, help="negative: the server's own")
    add("--extra-body", default="{}", help="JSON, added to each request")
    add("--timeout", type=float, default=300, help="seconds without a byte of an answer")
    add("--retries", type=int, default=3, help="how often a busy server is asked again")
    add("--api-key-env", default="TENON_API_KEY")
    add("--price-in", type=float, help="of a million tokens of prompts")
    add("--price-out", type=float, help="of a million tokens of answers")
    add(
        "--against", type=pathlib.Path, help="--out of another run, the reference of the trigger F1"
    )
    add("--summary", type=pathlib.Path, help="the figures as JSON into this file")
    add("--show-flaws", type=int, default=0, metavar="N", help="show N answers with flaws")
    add("--print-requests", action="store_true", help="print the requests as JSON Lines, as both verifiers read them, and ask nothing")  # fmt: skip
    options = parser.parse_args()
    options.temperature = options.temperature if options.temperature >= 0 else None
    options.max_tokens = options.max_tokens if options.max_tokens >= 0 else None
    try:
        options.extra = json.loads(options.extra_body)
    except (ValueError, RecursionError):
        options.extra = None
    if not isinstance(options.extra, dict):
        parser.error(f"--extra-body {options.extra_body}: a JSON object is needed")
    if options.concurrency < 1 or options.retries < 0:
        parser.error("--concurrency is 1 at least, and --retries 0")
    for name in ("out", "summary"):
        path = getattr(options, name)
        if path and not path.parent.is_dir():
            parser.error(f"--{name} {path}: there is no such folder")
    if not options.out and not options.print_requests:
        parser.error("--out is missing: the file for the answers")
    if options.url and urllib.parse.urlsplit(options.url).scheme not in ("http", "https"):
        parser.error(f"--url {options.url}: http://host:port is needed")
    return options, parser


def refuse_stale(parser, path, run, lines):
    number = stale_number(run, lines) if run else None
    if number is not None:
        parser.error(f"{path} was made with other prompts (request {number}); begin another file")


def warn(words):
    print(f"warning: {words}", file=sys.stderr)


def warn_of_cuts(path, summary):
    cut, answers = summary["finish_reasons"].get("length", 0), summary["query_success"]["count"]
    if cut > MOST_CUT * answers:
        warn(f"{path}: {cut} of {answers} answers were cut at max_tokens {summary['run'].get('max_tokens')}: the figures are about that limit, too; --max-tokens -1 leaves it to the server")  # fmt: skip


def main():
    options, parser = read_options()
    if options.print_requests:
        for number in range(options.requests):
            print(json.dumps(body_of(make_prompt(options.seed, number), number, options)))
        return 0

    run, lines = read_run(options.out)
    asked = run_of(options) if options.url else run
    differs = [name for name in asked or {} if run and run.get(name) != asked[name]]
    if differs:
        parser.error(f"{options.out} is of another run: {', '.join(f'{name} {run[name]}' for name in differs)}")  # fmt: skip
    refuse_stale(parser, options.out, asked, lines)
    other = others = None
    if options.against:
        other, others = read_run(options.against)
        seed = (asked or {}).get("seed")
        if not other or other["seed"] != seed:
            parser.error(f"--against {options.against}: not a run with the seed {seed}")
        refuse_stale(parser, options.against, other, others)
        for name in ("temperature", "max_tokens", "extra_body"):
            if other.get(name) != asked.get(name):
                warn(f"{name} is {asked.get(name)}, and {other.get(name)} in {options.against}: the two runs differ by more than the server")  # fmt: skip

    status = 0
    if options.url:
        run = asked
        status = ask_all(options, run, lines)
    if status and not lines:
        return status
    if not run or not lines:
        parser.error(f"{options.out} has no answers; --url says which server to ask")

    judged, summary = summary_of(run, lines, (options.price_in, options.price_out))
    reference = comparison = None
    if other:
        there, reference = summary_of(other, others)
        comparison = summary["against"] = compare(judged, there)
    warn_of_cuts(options.out, summary)
    if reference:
        warn_of_cuts(options.against, reference)
    sys.stdout.reconfigure(errors="backslashreplace")  # half a surrogate pair, from an answer
    print(shown(summary, reference, comparison))
    for number in [number for number in judged if judged[number]["flaws"]][: options.show_flaws]:
        print(f"\n{number} {judged[number]['flaws']}: {json.dumps(lines[number]['message'], ensure_ascii=False)[:1000]}")  # fmt: skip
    if options.summary:
        options.summary.write_text(json.dumps(summary, indent=1) + "\n")
    return status or (0 if summary["query_success"]["count"] else 1)


if __name__ == "__main__":
    sys.exit(main())
