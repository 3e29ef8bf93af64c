"""What the vendors' verifiers measure, on prompts of our own (bench/vendor_prompts.py): does a server decide, form and end calls as the
same model does where it is served right?

    .venv/bin/python bench/vendor_verify.py --url http://127.0.0.1:8000 --model NAME --requests 2000 --out here.jsonl
    .venv/bin/python bench/vendor_verify.py --out there.jsonl --against here.jsonl        # two runs, nothing is asked

Each answer is a line of --out, so a run that was broken off goes on where it was: lines that are there are not asked again, but for
those that failed. Measures, as far as it can be done over Chat Completions, what two public verifiers define:
https://github.com/MoonshotAI/K2-Vendor-Verifier (trigger F1, schema accuracy) and https://github.com/MiniMax-AI/MiniMax-Provider-Verifier
(success, finish reasons, only reasoning, language). The key is in the environment variable that --api-key-env names.
docs/verify.md#vendor-verifiers says how each figure is made.
"""

import argparse
import collections
import concurrent.futures
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

# What formats of calls and chats are made of: none of it belongs into a text.
MARKERS = re.compile(
    r"<\|[a-z_▁|]+\|>|</?tool_calls?>|\[TOOL_CALLS\]|</?think>|<[|｜][^>\n]{1,40}[|｜]>|<minimax:tool_call>"
)
CYRILLIC = re.compile("[\u0400-\u04ff]")
BUSY = {408, 409, 425, 429, 500, 502, 503, 504, 529}


# ---- asking


class Failure(Exception):
    """There is no answer: `status` is 0 where none came."""

    def __init__(self, words, status=0, wait_s=None):
        super().__init__(words)
        self.status, self.wait_s = status, wait_s


def fold(lines, begun):
    """A stream as one message: (choice, usage, ms to the first piece, whether its end was told)."""
    message, calls, finish, usage, first_ms, is_ended = {}, {}, None, None, None, False
    for line in lines:
        line = line.decode("utf-8", "replace").strip()
        if not line.startswith("data:"):
            continue
        data = line[5:].strip()
        if data == "[DONE]":
            is_ended = True
            break
        try:
            chunk = json.loads(data)
        except json.JSONDecodeError:
            raise Failure(f"an event is no JSON: {data[:200]}") from None
        if chunk.get("error"):
            raise Failure(f"an event is an error: {data[:400]}")
        usage = chunk.get("usage") or usage
        for choice in chunk.get("choices") or []:
            delta = choice.get("delta") or {}
            finish = choice.get("finish_reason") or finish
            for name in ("content", "reasoning", "reasoning_content"):
                if delta.get(name):
                    message[name] = message.get(name, "") + delta[name]
            for part in delta.get("tool_calls") or []:
                call = calls.setdefault(
                    part.get("index", 0), {"function": {"name": "", "arguments": ""}}
                )
                call["id"] = part.get("id") or call.get("id")
                function = part.get("function") or {}
                call["function"]["name"] += function.get("name") or ""
                call["function"]["arguments"] += function.get("arguments") or ""
            if first_ms is None and (message or calls):
                first_ms = round((time.monotonic() - begun) * 1000)
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return {"message": message, "finish_reason": finish}, usage, first_ms, is_ended


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
        connection = self.connection()
        try:
            connection.request(
                "POST", self.url.path + "/chat/completions", json.dumps(body), self.headers
            )
            answer = connection.getresponse()
            if answer.status != 200:
                words = answer.read().decode("utf-8", "replace")[:400]
                wait = answer.headers.get("retry-after", "")
                raise Failure(words, answer.status, float(wait) if wait.isdigit() else None)
            is_ended, first_ms = True, None
            if body.get("stream"):
                choice, usage, first_ms, is_ended = fold(answer, begun)
                answer.read()
            else:
                document = json.loads(answer.read())
                [choice, *_] = document.get("choices") or [{}]
                usage = document.get("usage")
        except Failure:
            connection.close()
            raise
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            connection.close()
            raise Failure(f"{type(error).__name__}: {error}") from None
        return {
            "message": choice.get("message") or {},
            "finish_reason": choice.get("finish_reason"),
            "usage": usage,
            "is_ended": is_ended,
            "first_ms": first_ms,
            "ms": round((time.monotonic() - begun) * 1000),
        }


def body_of(prompt, number, options):
    body = {"model": options.model, **prompt.request, "max_tokens": options.max_tokens}
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if number % 2:  # every other one is a stream
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body | json.loads(options.extra_body)


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
            line |= {"status": "failed", "tries": attempt + 1, "http_status": failure.status}
            line["error"] = str(failure)
            is_last = attempt == options.retries or (
                failure.status and failure.status not in BUSY and failure.status != 200
            )
            pause = failure.wait_s if failure.wait_s is not None else min(60, 2**attempt)
            if is_last or is_over.wait(pause):
                break
    return line


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
    except json.JSONDecodeError:
        return "arguments_not_json"
    is_valid = jsonschema.Draft202012Validator(schema).is_valid(value)
    return None if is_valid else "arguments_not_valid"


def judge(line, prompt):
    """What an answer is, for the figures, and its flaws: rules that hold whatever a model says."""
    message, finish = line["message"], line["finish_reason"]
    calls = [call for call in message.get("tool_calls") or [] if isinstance(call, dict)]
    content = message.get("content") or ""
    content = content if isinstance(content, str) else json.dumps(content)
    reasoning = message.get("reasoning") or message.get("reasoning_content") or ""
    wrong = [judge_call(call, prompt.request["tools"]) for call in calls]
    whole = (
        wrong[:-1] if finish == "length" else wrong
    )  # an answer that was cut ends in a call that was
    flaws = {flaw for flaw in whole if flaw}
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
        "only_reasoning": reasoning and not content and not calls and finish != "length",
        "empty": not reasoning and not content and not calls,
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
        "only_reasoning": bool(reasoning and not content and not calls),
        "language": prompt.category == "language" and bool(content),
        "language_kept": not CYRILLIC.search(content),
        "flaws": sorted(flaws),
    }


# ---- figures


def wilson(count, of, z=1.959964):
    """Wilson's interval of 95 % of a share; (0, 1) of nothing."""
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
    """Of (whether it triggers, whether it should). F1 is 2J / (1 + J) of J = TP / (TP + FP + FN), which is a share: so its interval
    comes from Wilson's of J."""
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
            sum(not answer["only_reasoning"] for answer in answers), len(answers)
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
    """(what was asked, {number: line}). The last line of a number holds; a line that was cut is asked again."""
    run, lines = None, {}
    for text in path.read_text().splitlines() if path.exists() else []:
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        if "run" in line:
            run = line["run"]
        else:
            lines[line["number"]] = line
    return run, lines


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
    """Asks what is missing, and adds to `lines`. Returns whether it was interrupted."""
    missing = [
        number for number in range(options.requests) if lines.get(number, {}).get("status") != "ok"
    ]
    key = os.environ.get(options.api_key_env, "")
    server = Server(options.url, key, options.timeout)
    progress = Progress(
        options.requests, options.requests - len(missing), (options.price_in, options.price_out)
    )
    is_over = threading.Event()

    def end(number, frame):
        """What is being asked is paid for: it is waited for and kept, until the second Ctrl-C."""
        is_over.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGTERM, end)

    def ask(number):
        return None if is_over.is_set() else ask_one(server, number, options, is_over)

    is_cut = options.out.exists() and options.out.read_bytes()[-1:] not in (b"", b"\n")
    with (
        open(options.out, "a") as file,
        concurrent.futures.ThreadPoolExecutor(options.concurrency) as pool,
    ):
        if is_cut:
            file.write("\n")
        if not lines:
            file.write(json.dumps({"run": run}) + "\n")
            file.flush()

        def keep(line):
            if line is None:
                return
            lines[line["number"]] = line
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            progress.add(line)

        for future in concurrent.futures.as_completed(pool.submit(ask, n) for n in missing):
            keep(future.result())
    if progress.asked:
        progress.show()
        print(file=sys.stderr)
    return is_over.is_set()


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
    add("--max-tokens", type=int, default=1024)
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
    if not options.out and not options.print_requests:
        parser.error("--out is missing: the file for the answers")
    if options.url and urllib.parse.urlsplit(options.url).scheme not in ("http", "https"):
        parser.error(f"--url {options.url}: http://host:port is needed")
    return options, parser


def main():
    options, parser = read_options()
    if options.print_requests:
        for number in range(options.requests):
            print(json.dumps(body_of(make_prompt(options.seed, number), number, options)))
        return 0

    run, lines = read_run(options.out)
    is_interrupted = False
    if options.url:
        asked = run_of(options)
        differs = [name for name in asked if run and run.get(name) != asked[name]]
        if differs:
            parser.error(f"{options.out} is of another run: {', '.join(f'{name} {run[name]}' for name in differs)}")  # fmt: skip
        run = asked
        is_interrupted = ask_all(options, run, lines)
    if not run or not lines:
        parser.error(f"{options.out} has no answers; --url says which server to ask")
    stale = [number for number in lines if lines[number]["hash"] != hash_of(make_prompt(run["seed"], number))]  # fmt: skip
    if stale:
        parser.error(
            f"{options.out} was made with other prompts (request {stale[0]}); begin another file"
        )

    judged, summary = summary_of(run, lines, (options.price_in, options.price_out))
    reference = comparison = None
    if options.against:
        other, others = read_run(options.against)
        if not other or other["seed"] != run["seed"]:
            parser.error(f"--against {options.against}: not a run with the seed {run['seed']}")
        there, reference = summary_of(other, others)
        comparison = summary["against"] = compare(judged, there)
    print(shown(summary, reference, comparison))
    for number in [number for number in judged if judged[number]["flaws"]][: options.show_flaws]:
        print(f"\n{number} {judged[number]['flaws']}: {json.dumps(lines[number]['message'], ensure_ascii=False)[:1000]}")  # fmt: skip
    if options.summary:
        options.summary.write_text(json.dumps(summary, indent=1) + "\n")
    if is_interrupted:
        return 130
    return 0 if summary["query_success"]["count"] else 1


if __name__ == "__main__":
    sys.exit(main())
