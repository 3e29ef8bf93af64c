"""Where the embeddings start: words that stand together have like vectors.

    python vectors.py umbrella invoice      # the nearest words of some

Positive pointwise mutual information of tokens within a definition of WordNet (with the words it defines) and within all
that is written of one tool of training, reduced by a singular value decomposition. Spellings share a row, as in the model.
Common words are near 0, since that a request has them too says nothing of a tool.
"""

import argparse
import random
import re

import chatml
import generator
import lexicon
import tokenizer as tokens
import torch

COMMON = 0.12  # share of declarations and requests that have a word of no weight


def pages():
    """All that is written of each tool."""
    for intent in generator.library().intents:
        texts = (
            [name.replace("_", " ") for name in intent.names]
            + intent.descriptions
            + intent.requests
        )
        yield re.sub(r"\{[^}]*\}", " ", " . ".join(texts))


def together(texts, tokenizer, base_of, count):
    """[count, count]: in how many of the texts two rows stand."""
    sums, pairs = torch.zeros(count * count), []
    for text in texts:
        ids = base_of[tokenizer.encode(" " + text).ids].unique()
        pairs.append((ids[:, None] * count + ids).view(-1))
        if len(pairs) == 2000:
            add(sums, pairs)
    add(sums, pairs)
    return sums.view(count, count)


def add(sums, pairs):
    if pairs:
        places = torch.cat(pairs)
        sums.index_add_(0, places, torch.ones(len(places)))
        pairs.clear()


def information(counts):
    """Positive pointwise mutual information, smoothed for what is rare."""
    totals = counts.diagonal().clone()
    counts.fill_diagonal_(0)
    smooth = totals.clamp(min=5) ** 0.75
    rows = counts.sum(1).clamp(min=1)
    return ((counts + 1e-9) / rows[:, None] / (smooth / smooth.sum())).log().clamp(min=0) * (
        counts > 1
    )


def rarity(tokenizer, base_of, count, samples=300):
    """[base rows] 1 for what few declarations and requests of training have, 0 for what every eighth has."""
    r, having, seen = random.Random(5), torch.zeros(count), 0
    for _ in range(samples):
        tools, _, talks = generator.tree(r)
        for text in [chatml.render_tool(tool["function"]) for tool in tools or ()] + [
            talk[0]["content"] for talk in talks
        ]:
            having[base_of[tokenizer.encode(text).ids].unique()] += 1
            seen += 1
    return (1 - having / seen / COMMON).clamp(min=0)


def start(tokenizer, width):
    """[base rows, width] of mean square 1 for rare words and near 0 for common ones; random in direction for what is no word."""
    rows, count = tokens.spelling_rows(tokenizer)
    base_of = torch.tensor([base for base, _ in rows])
    # Two sources, weighed alike: definitions tell what a word means, tools what people say when they want something.
    matrix = sum(
        information(together(source(), tokenizer, base_of, count))
        for source in (lexicon.definitions, pages)
    )
    left, sizes, _ = torch.svd_lowrank(matrix, q=width + 16, niter=4)
    made = left[:, :width] * sizes[:width] ** 0.5
    made -= made.mean(0)
    norm = made.norm(dim=1, keepdim=True)
    anyhow = torch.randn(count, width, generator=torch.Generator().manual_seed(1))
    made = torch.where(norm > 1e-3, made / norm.clamp(min=1e-3) * width**0.5, anyhow)
    return made * rarity(tokenizer, base_of, count)[:, None]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("words", nargs="+")
    parser.add_argument("--width", type=int, default=96)
    options = parser.parse_args()
    tokenizer = tokens.load(tokens.PATH)
    rows, count = tokens.spelling_rows(tokenizer)
    vectors = start(tokenizer, options.width)
    text_of = {
        base: tokenizer.id_to_token(i)
        for i, (base, flag) in reversed(list(enumerate(rows)))
        if flag == 0
    }
    for word in options.words:
        ids = tokenizer.encode(word).ids
        row = rows[ids[0]][0]
        near = (vectors @ vectors[row]).topk(12).indices.tolist()
        print(word, len(ids), [text_of.get(i, "?") for i in near])


if __name__ == "__main__":
    main()
