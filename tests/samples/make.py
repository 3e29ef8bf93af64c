#!/usr/bin/env python3
"""Makes the samples beside this file anew from the *_cases.py and the templates:

    .venv/bin/python tests/samples/make.py [FOLDER]     needs the packages of requirements/test.txt
    python tests/samples/make.py --vocabularies         needs `tokenizers` 0.23.3 (requirements/bench.txt)

What is expected is not Tenon's own: templates are rendered by jinja2 as transformers sets it up, verdicts on schemas are held against
jsonschema, token ids come from the `tokenizers` package. tests/e2e/test_samples.py checks that the files are those that this makes.
"""

import datetime
import functools
import json
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import format_cases  # noqa: E402
import request_cases  # noqa: E402
import schema_cases  # noqa: E402
import template_cases  # noqa: E402

NOW = datetime.datetime(2026, 11, 20, 12)


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


# ---- schemas


def check_verdicts():
    import jsonschema

    for row in schema_cases.mask_rows():
        jsonschema.Draft202012Validator.check_schema(row["schema"])
        judge = jsonschema.Draft202012Validator(
            row["schema"], format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
        )
        for test in row["tests"]:
            if "format" not in json.dumps(
                row["schema"]
            ):  # its packages for formats are not all installed
                assert judge.is_valid(test["data"]) == test["valid"], (row["id"], test)
    classes = {
        "draft4": jsonschema.Draft4Validator,
        "draft6": jsonschema.Draft6Validator,
        "draft7": jsonschema.Draft7Validator,
        "draft2019-09": jsonschema.Draft201909Validator,
        "draft2020-12": jsonschema.Draft202012Validator,
    }
    for draft in schema_cases.DRAFTS:
        for row in schema_cases.suite_rows(draft):
            if row["section"] == "required" and row["keyword"] != "refRemote":
                assert classes[draft](row["schema"]).is_valid(row["instance"]) == row["valid"], row


# ---- templates


@functools.cache
def environment():
    """As transformers has it, with a clock that stands still."""
    import jinja2
    import jinja2.ext
    import jinja2.sandbox

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    made.filters["tojson"] = tojson
    made.globals.update(raise_exception=raise_exception, strftime_now=NOW.strftime)
    return made


@functools.cache
def compiled(source):
    return environment().from_string(source)


def rendered(source, context):
    try:
        return {"ok": True, "output": compiled(source).render(**context)}
    except Exception as error:  # every kind counts: the template has no text then
        return {"ok": False, "error": type(error).__name__, "message": str(error)}


def templates(folder):
    conversations = list(template_cases.conversations())
    (folder / "conversations.json").parent.mkdir(parents=True, exist_ok=True)
    (folder / "conversations.json").write_text(
        json.dumps(conversations, ensure_ascii=False, indent=1) + "\n"
    )
    manifest, goldens, formats = [], [], []
    for name, (
        begin,
        end,
        format,
        tools,
        calls,
        parallel,
        system,
        switch,
    ) in template_cases.TEMPLATES.items():
        file = f"templates/{name}.jinja"
        source = (HERE / "templates" / file).read_text()
        manifest.append({"template": name, "file": file, "bos": begin or None, "eos": end})
        tokens = {"eos_token": end, **({"bos_token": begin} if begin else {})}
        for conversation in conversations:
            goldens.append(
                {
                    "template": name,
                    "conv": conversation["id"],
                    **rendered(source, {**conversation["context"], **tokens}),
                }
            )
        formats.append(
            {
                "template": name,
                "format": format,
                "decided_by": "rendered" if format != "none" else "none",
                "supports_tools": tools,
                "supports_calls_in_history": calls,
                "supports_parallel": parallel,
                "supports_system": system,
                "thinking_switch": switch,
            }
        )
    write_lines(folder / "manifest.jsonl", manifest)
    write_lines(folder / "goldens_public.jsonl", goldens)
    write_lines(folder / "format_of_template.jsonl", formats)
    (folder / "jinja_context.json").write_text(
        json.dumps(template_cases.CONTEXT, ensure_ascii=False, indent=1) + "\n"
    )
    write_lines(
        folder / "jinja_public.jsonl",
        (
            {
                "id": f"{category}-{number}",
                "category": category,
                "template": source,
                "context": "default",
                **rendered(source, template_cases.CONTEXT),
            }
            for category, sources in template_cases.LANGUAGE.items()
            for number, source in enumerate(sources)
        ),
    )


# ---- vocabularies

WORDS = """The cat sat on the mat and the dog ran to the door. Calls are {"name": "get_weather", "arguments": {"city": "Oslo", "days": 3}}.
Numbers: 12345, 3.14159, 2026-11-20T12:00:00Z. def f(x):\n    return x**2  # done\n\tIt's we're they'll don't I'm you've he'd.
Zażółć gęślą jaźń. Ĉu vi parolas Esperanton? Здравствуй, мир! 你好，世界。 こんにちは。 안녕하세요 🎈🍽 \r\n\r\n   spaces   and\ttabs
<tool_call>\n{"name": "set_lamp", "arguments": {"room": "attic", "level": 0.25, "colours": ["red", "blue"], "outside": true, "note": null}}\n</tool_call>"""
TEXTS = [
    "Hello world! 12345 don't",
    "  two  spaces\r\n\n\tx",
    "e\u0301 \u212b ﬁ",
    "def f(x):\n    return x**2  # done",
    "",
    " ",
    "\n\n\n",
    "a<|end|>b <|call|>",
    "Zażółć 茶 🎈🎈",
    "Ünïcödé'S 'LL",
    "12 345678",
    '{"a": [1, -2.5e3, null]}',
    "\u200b\u00a0x",
    "<tool_call>\n{}\n</tool_call>",
    "x" * 50,
]
CONTROLS = [
    "<|begin|>",
    "<|end|>",
    "<|call|>",
    "<|result|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "[INST]",
    "[/INST]",
    "<start_of_turn>",
    "<end_of_turn>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<|channel|>",
    "<|message|>",
    "<|start|>",
]
SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def byte_level():
    """Words are cut by a pattern, bytes are written as letters; as Llama 3 and Qwen have it."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE(ignore_merges=True))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(
        [WORDS] * 3,
        trainers.BpeTrainer(
            vocab_size=700,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return made


def pieces():
    """A blank is a letter of its own, bytes without a token are written as <0xNN>; as Gemma has it."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.normalizer = normalizers.Replace(" ", "▁")
    trained.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    special = ["<pad>", "<eos>", "<bos>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trained.train_from_iterator(
        [WORDS.replace("茶", "").replace("🎈", "")] * 3,
        trainers.BpeTrainer(vocab_size=760, special_tokens=special, show_progress=False),
    )
    whole = json.loads(trained.to_str())
    whole["model"] |= {"byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>"}
    whole["added_tokens"] = [
        token for token in whole["added_tokens"] if not token["content"].startswith("<0x")
    ]
    made = Tokenizer.from_str(json.dumps(whole))
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return made


def token_bytes(tokenizer, name):
    """By id: (is it control?, its bytes), read from tokenizer.json and not by our library."""
    data = json.loads(tokenizer.to_str())
    added = {token["id"]: token for token in data["added_tokens"]}
    letters = {}
    if name == "bytes":  # the letters of the byte level
        plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
        rest = [byte for byte in range(256) if byte not in plain]
        letters = {chr(byte): byte for byte in plain} | {
            chr(256 + number): byte for number, byte in enumerate(rest)
        }
    for id in range(tokenizer.get_vocab_size()):
        text = tokenizer.id_to_token(id)
        if id in added:
            yield added[id]["special"], text.encode()
        elif name == "bytes":
            yield False, bytes(letters[letter] for letter in text)
        elif len(text) == 6 and text.startswith("<0x"):
            yield False, bytes([int(text[3:5], 16)])
        else:
            yield False, text.replace("▁", " ").encode()


def vocabularies(folder):
    from tokenizers import AddedToken

    expected = []
    for name, make in {"bytes": byte_level, "pieces": pieces}.items():
        tokenizer = make()
        tokenizer.add_special_tokens(
            [AddedToken(text, special=True, normalized=False) for text in CONTROLS]
        )
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        (place / "tokenizer.json").write_text(
            json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
            + "\n"
        )
        (place / "tokenizer_config.json").write_text(
            json.dumps({"bos_token": "<|begin|>", "eos_token": "<|end|>"}, indent=1) + "\n"
        )
        tokens = list(token_bytes(tokenizer, name))
        (place / "meta.json").write_text(
            json.dumps({"eos": tokenizer.token_to_id("<|end|>")}) + "\n"
        )
        (place / "tokens.bin").write_bytes(
            b"TKB1"
            + struct.pack("<II", len(tokens), tokenizer.token_to_id("<|end|>"))
            + b"".join(
                struct.pack("<BH", is_control, len(text)) + text for is_control, text in tokens
            )
        )
        expected += [
            {
                "vocabulary": name,
                "text": text,
                "ids": tokenizer.encode(text, add_special_tokens=False).ids,
            }
            for text in TEXTS
        ]
    write_lines(folder / "expected.jsonl", expected)


def main(folder):
    check_verdicts()
    write_lines(folder / "formats" / "public.jsonl", format_cases.rows())
    write_lines(folder / "formats" / "bfcl_public.jsonl", request_cases.rows())
    write_lines(folder / "masks" / "public" / "own.jsonl", schema_cases.mask_rows())
    for draft in schema_cases.DRAFTS:
        write_lines(folder / "schemas" / f"tests_{draft}.jsonl", schema_cases.suite_rows(draft))
    (folder / "schemas" / "remotes.json").write_text(
        json.dumps(schema_cases.REMOTES, indent=1) + "\n"
    )
    templates(folder / "templates")


if __name__ == "__main__":
    if sys.argv[1:] == ["--vocabularies"]:
        vocabularies(HERE / "vocab")
    else:
        main(pathlib.Path(sys.argv[1]) if sys.argv[1:] else HERE)
