"""Holds the gradients that `model.py` makes by hand against those of autograd.

    python check_model.py
"""

import torch
from torch.nn import functional as F

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


if __name__ == "__main__":
    torch.manual_seed(1)
    check_attention()
    check_loss()
    print("gradients of attention and loss equal those of autograd")
