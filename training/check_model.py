"""Holds the gradients that `model.py` makes by hand against those of autograd, and what `train.py` takes tokens for.

    python check_model.py
"""

import torch
from torch.nn import functional as F

import tokenizer as tokens
import train
from model import Attention, ClassLoss


def slopes(made, inputs):
    return torch.autograd.grad(made, inputs)


def check_attention(batch=2, kv=2, group=3, length=37, d=8):
    q, k, v = (torch.randn(*shape, length, d, requires_grad=True) for shape in ((batch, kv, group), (batch, kv), (batch, kv)))
    hidden = ~torch.ones(length, length, dtype=torch.bool).tril()
    mask = torch.zeros(batch, 1, 1, length, length).masked_fill_(hidden, float("-inf"))
    scores = torch.einsum("bkgqd,bksd->bkgqs", q, k) + mask
    plain = torch.einsum("bkgqs,bksd->bkgqd", scores.softmax(-1), v)
    made, weights = Attention.apply(q, k, v, mask), torch.randn_like(plain)
    torch.testing.assert_close(made, plain, rtol=1e-4, atol=1e-5)
    for mine, wanted in zip(slopes((made * weights).sum(), (q, k, v)), slopes((plain * weights).sum(), (q, k, v))):
        torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=1e-5)


def check_loss(count=11, width=8, classes=23):
    states, table = torch.randn(count, width, requires_grad=True), torch.randn(classes, width, requires_grad=True)
    bias, labels, weights = torch.randn(classes), torch.randint(classes, (count,)), torch.rand(count)
    logits = F.linear(states, table) + bias
    plain = (F.cross_entropy(logits, labels, reduction="none") * weights).sum()
    loss, right = ClassLoss.apply(states, table, bias, labels, weights)
    torch.testing.assert_close(loss, plain)
    assert right == (logits.argmax(-1) == labels).sum()
    for mine, wanted in zip(slopes(loss, (states, table)), slopes(plain, (states, table))):
        torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=1e-5)


# A reply, what the tools returned before it, and the tokens of it that are no PLAIN.
PARTS = (
    ('<tool_call>\n{"name": "find_pet', "", "FIRST <tool_call>|TOOL find|NAME _|NAME pet"),
    ('<tool_call>\n{"name": "find_pet", "arguments": {"name": "Anna", "age": 7}}\n</tool_call>', "",
     'FIRST <tool_call>|TOOL find|NAME _|NAME pet|VALUE  {"|KEY name|VALUE ":|VALUE  "|VALUE Anna|VALUE ",|VALUE  "|KEY age|VALUE ":|VALUE  |VALUE 7'),
    ("Please tell me the town.", "", "FIRST Please|KEY  town"),
    ("The town is Rome.", '{"town": "Rome"}', "FIRST The|COPY  town|COPY  Rome"),
)


def check_parts():
    tokenizer = tokens.load(tokens.PATH)
    names = "PLAIN FIRST TOOL NAME KEY VALUE COPY".split()
    for text, result, wanted in PARTS:
        piece = tokenizer.encode(text)
        parts = train.token_parts(text, piece.offsets, result)
        made = [names[part] + " " + text[start:end] for part, (start, end) in zip(parts, piece.offsets) if part != train.PLAIN]
        assert "|".join(made) == wanted, "\n".join(("|".join(made), wanted))


if __name__ == "__main__":
    torch.manual_seed(1)
    check_attention()
    check_loss()
    check_parts()
    print("gradients of attention and loss equal those of autograd; tokens are taken for what they are")
