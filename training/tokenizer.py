"""The tokenizer: byte-level BPE whose words come in four spellings.

    python tokenizer.py --out state/tokenizer.json

Letter merges are learnt on lower-case text and mirrored, so that "paris",
"Paris", " paris" and " Paris" are cut alike. Each token is then a base row
plus one of four flags (leading space, capital), and the embedding table is
the sum of the two: a word learnt in one spelling is known in all, and copying
" Paris" from a request into "Paris" of an argument is close to the identity.
Digits stay single. Text is split with the "qwen2" expression of llama.cpp.
"""

import argparse
import json
import os
import random
import re

import chatml
import generator
import lexicon
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "state", "tokenizer.json")
SPACE = "\u0120"  # how byte-level BPE writes a space


def learn_merges(texts, count):
    """`count` byte-level merges over texts that are pre-tokens already."""
    learner = tokenizers.Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=256 + count, initial_alphabet=alphabet, show_progress=False, min_frequency=3
    )
    learner.train_from_iterator(texts, trainer)
    return [
        tuple(m) if not isinstance(m, str) else tuple(m.split(" "))
        for m in json.loads(learner.to_str())["model"]["merges"]
    ]


def sample_texts(count, seed):
    r = random.Random(seed)
    for _ in range(count):
        tools, system, talks = generator.tree(r)
        yield chatml.render_prefix(tools, system)
        for messages in talks:
            for text, _ in chatml.render_messages(messages):
                yield text


def build(letter_merges=4000, mark_merges=100, samples=6000, seed=7):
    """The tokenizer as a Hugging Face `tokenizers` object.

    Words are counted in samples and in WordNet's definitions, so that words of everyday English that the samples lack are
    whole too: `vectors.py` knows what they mean.
    """
    words, marks = [], []
    for text in lexicon.definitions():
        words += re.findall(r"[a-z]+", text.lower())
    control = "|".join(re.escape(token) for token in chatml.CONTROL_TOKENS)
    for text in sample_texts(samples, seed):
        text = re.sub(control, "\x00", text)
        words += [w.lower() for w in re.findall(r"[A-Za-z][a-z]*", text)]
        marks += re.findall(r" ?[^\sA-Za-z0-9\x00-\x08\x80-\U0010ffff]+[\r\n]*", text)
    merges = [m for m in learn_merges(marks, mark_merges) if not (set("".join(m)) & set("_/#"))]
    pairs = learn_merges(words, letter_merges)
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    for left, right in pairs:
        merges += [(left, right), (left.capitalize(), right)]
    for word in letters + [left + right for left, right in pairs]:
        merges += [(SPACE, word), (SPACE, word.capitalize())]
    merges = list(dict.fromkeys(merges))
    tokens = sorted(pre_tokenizers.ByteLevel.alphabet()) + [left + right for left, right in merges]
    vocab = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    made = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(QWEN2), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(
        [tokenizers.AddedToken(t, special=True, normalized=False) for t in chatml.CONTROL_TOKENS]
    )
    return made


def load(path):
    return tokenizers.Tokenizer.from_file(path)


def spelling_rows(tokenizer):
    """(base row, flag) of each token, and the number of base rows."""
    rows, bases = [], {}
    tokens = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    for token in tokens:
        space = token.startswith(SPACE) and token[1:].isascii() and token[1:].isalpha()
        bare = token[1:] if space else token
        capital = bare.isascii() and bare.isalpha() and bare[0].isupper()
        base = bare.lower() if capital else bare
        rows.append((bases.setdefault(base, len(bases)), int(space) + 2 * int(capital)))
    return rows, len(bases)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default=PATH)
    options = parser.parse_args()
    made = build()
    made.save(options.out, pretty=False)
    print("vocabulary %d, base rows %d" % (made.get_vocab_size(), spelling_rows(made)[1]))


if __name__ == "__main__":
    main()
