#!/usr/bin/env python3
"""Compile and render times of other template engines over the pairs that `jinja_bench real` takes.

    python bench/jinja_peer.py [engine ...]      minijinja, jinja2: those installed by default

Best of seven runs per pair, median and 90th percentile over the pairs, in microseconds. minijinja's render time holds
the conversion of the context, which it does at each rendering; jinja2 takes Python's values as they are.
"""

import json
import statistics
import sys
import time

import data

DATA = data.DATA / "templates"


def pairs():
    rows = {
        r["template"]: r
        for r in map(json.loads, (DATA / "manifest.jsonl").read_text().rstrip("\n").split("\n"))
    }
    contexts = {
        c["id"]: c["context"] for c in json.loads((DATA / "conversations.json").read_text())
    }
    number = 0
    for line in (DATA / "goldens_public.jsonl").read_text().rstrip("\n").split("\n"):
        golden = json.loads(line)
        if not golden["ok"]:
            continue
        number += 1
        is_long = golden["conv"] == "long_tools"  # 25 turns
        if (number - 1) % 20 and not is_long:
            continue
        row = rows[golden["template"]]
        tokens = {f"{k}_token": row[k] for k in ("bos", "eos") if row[k] is not None}
        yield (
            (DATA / row["file"]).read_bytes().decode(),
            {**contexts[golden["conv"]], **tokens},
            is_long,
        )


def best_us(run):
    best = float("inf")
    for _ in range(7):
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
    return best * 1e6


def dumps(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def raise_exception(message):
    raise RuntimeError(message)


def minijinja():
    import minijinja as engine

    env = engine.Environment(trim_blocks=True, lstrip_blocks=True, pycompat=True)
    env.add_filter("tojson", dumps)
    env.add_global("raise_exception", raise_exception)
    env.add_global("strftime_now", lambda text: time.strftime(text))
    return lambda source: env.add_template("t", source), lambda context: env.render_template(
        "t", **context
    )


def jinja2():
    import jinja2.ext
    import jinja2.sandbox

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols], cache_size=0
    )
    env.filters["tojson"] = dumps
    env.globals.update(
        raise_exception=raise_exception, strftime_now=lambda text: time.strftime(text)
    )
    state = {}

    def compile_source(source):
        state["template"] = env.from_string(source)

    return compile_source, lambda context: state["template"].render(**context)


def main():
    chosen = list(pairs())
    for make in [e for e in (minijinja, jinja2) if not sys.argv[1:] or e.__name__ in sys.argv[1:]]:
        try:
            compile_source, render = make()
        except ImportError:
            print(f"{make.__name__}: not installed")
            continue
        times = {"compile": [], "render": [], "render of 25 turns": []}
        for source, context, is_long in chosen:
            try:
                compile_source(source)
                render(context)
            except Exception:  # a pair that the engine cannot render is left out of its figures
                continue
            if not is_long and (make is minijinja or len(times["compile"]) < 60):
                times["compile"].append(best_us(lambda: compile_source(source)))
            times["render of 25 turns" if is_long else "render"].append(
                best_us(lambda: render(context))
            )
        for what, values in times.items():
            values.sort()
            print(
                f"{make.__name__} {what}: {len(values)} pairs, median {statistics.median(values):.1f} us,"
                f" p90 {values[len(values) * 9 // 10]:.1f} us"
            )


main()
