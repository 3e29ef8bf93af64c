"""Holds the gradients of `kernel/` against those of autograd, and what `train.py` takes tokens for.

python check_model.py
"""

import random
import sys

import native
import tokenizer as tokens
import torch
import train
from model import Model, Shape


def random_tree(r, vocabulary, prefix, branches):
    """A tree with branches of these lengths, as `train.encode` makes them; half of the tokens of branches are targets."""
    ids = [r.randrange(vocabulary) for _ in range(prefix + sum(branches))]
    positions, numbers, parts = list(range(prefix)), [0] * prefix, [-1] * prefix
    for number, length in enumerate(branches, 1):
        positions += range(prefix, prefix + length)
        numbers += [number] * length
        parts += [-1] + [r.choice((-1, train.PLAIN, train.VALUE)) for _ in range(length - 1)]
    return ids, positions, numbers, parts


def check_gradients():
    """Trees of all kinds of lengths: slopes differ from those in float32 by no more than bfloat16 explains.

    False where there is no kernel to hold against autograd.
    """
    shape = Shape(width=128, layers=3, heads=4, kv_heads=2, hidden=64)
    rows = [(i % 150, i % 4) for i in range(400)]
    model = Model(shape, rows, 150)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * (0.3 if p.ndim == 1 else 0.02))
    sums = [torch.zeros_like(p) for p in model.parameters()]
    fast = native.gradient_of(model, sums)
    if not isinstance(fast, native.Native):
        assert not native.library(), "kernel/ refuses the shape"
        return False
    fast.pack()
    r = random.Random(1)
    for prefix, branches in (
        (0, [40]),
        (1, [2, 3]),
        (31, [32, 33]),
        (32, [64, 31, 1, 2]),
        (70, [5, 90, 1, 40]),
        (200, [9, 17, 100]),
    ):
        trees = [
            random_tree(r, len(rows), prefix, branches),
            random_tree(r, len(rows), 20, [30, 7]),
        ]
        batch = train.Batch(trees, model.token_rows)
        batch.sample_classes()
        check_sight(trees, batch.mask())
        for s in sums:
            s.zero_()
        loss, right = model.loss(batch)
        made, made_right = fast.add(batch)
        assert abs(made - loss.item()) < 0.01 * loss.item() and abs(made_right - right) <= 2, (
            made,
            loss.item(),
            made_right,
            right,
        )
        for (name, _), mine, wanted in zip(
            model.named_parameters(), sums, torch.autograd.grad(loss, list(model.parameters()))
        ):
            error = (mine - wanted).norm() / wanted.norm()
            assert error < 0.03, "%s of prefix %d and branches %s: off by %.3f" % (
                name,
                prefix,
                branches,
                error,
            )
    return True


def check_sight(trees, mask):
    """A token sees those before it, and itself, that are of its tree and of the prefix or its own branch."""
    owners = []
    for number, (_, _, branches, _) in enumerate(trees):
        owners += [(number, branch) for branch in branches] + [None] * (-len(branches) % 32)
    for query, owner in enumerate(owners):
        if owner:
            sees = [
                key <= query and other in ((owner[0], 0), owner) for key, other in enumerate(owners)
            ]
            assert (mask[query] == 0).tolist() == sees, "token %d of %s" % (query, owner)


# A reply, what the tools returned before it, and the tokens of it that are no PLAIN.
PARTS = (
    ('<tool_call>\n{"name": "find_pet', "", "FIRST <tool_call>|TOOL find|NAME _|NAME pet"),
    (
        '<tool_call>\n{"name": "find_pet", "arguments": {"name": "Anna", "age": 7}}\n</tool_call>',
        "",
        'FIRST <tool_call>|TOOL find|NAME _|NAME pet|VALUE  {"|KEY name|VALUE ":|VALUE  "|VALUE Anna|VALUE ",|VALUE  "|KEY age|VALUE ":|VALUE  |VALUE 7',
    ),
    ("Please tell me the town.", "", "FIRST Please|KEY  town"),
    ("The town is Rome.", '{"town": "Rome"}', "FIRST The|COPY  town|COPY  Rome"),
)


def check_parts():
    tokenizer = tokens.load(tokens.PATH)
    names = "PLAIN FIRST TOOL NAME KEY VALUE COPY".split()
    for text, result, wanted in PARTS:
        piece = tokenizer.encode(text)
        parts = train.token_parts(text, piece.offsets, result)
        made = [
            names[part] + " " + text[start:end]
            for part, (start, end) in zip(parts, piece.offsets)
            if part != train.PLAIN
        ]
        assert "|".join(made) == wanted, "\n".join(("|".join(made), wanted))


if __name__ == "__main__":
    torch.manual_seed(1)
    checked = check_gradients()
    check_parts()
    print(
        "tokens are taken for what they are"
        + ("; gradients equal those of autograd" if checked else "")
    )
    if not checked:
        print("kernel/ was not checked: it needs g++ and a processor with AMX", file=sys.stderr)
