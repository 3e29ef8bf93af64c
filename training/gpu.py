"""Trains on one GPU, from an F16 state or from nothing, for as many minutes as it is given.

    python gpu.py --run runs/gpu --start runs/288.pt --minutes 9.4
    python gpu.py --check       # holds its gradients against those of model.py; on a CPU too

What is learnt and how it is weighed are of `train.py`; the schedule is one of time: the full rate at first, 0 at the end.
Other processes make the samples, rows of trees one after another. Layers and loss are compiled; attention takes only
the blocks of a row in which a token sees another. The loss is over the whole vocabulary. What is written is weights in
F16, which `train.py --start`, `export.py` and another run take; a run that was broken off is not resumed.
"""

import argparse
import gc
import json
import math
import os
import random
import signal
import sys
import time

import generator
import native
import numpy as np
import tokenizer as tokens
import torch
import torch.multiprocessing as processes
import train
from model import Model, Shape
from torch._inductor.async_compile import AsyncCompile
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

ROW = 4096  # tokens of a row
WANTED = 0.5  # targets of a batch, as a share of its tokens (.37 on the average); what is beyond is dropped
POOL = 12  # trees of which the first that fits is taken
WAIT = 300  # most seconds for a batch


def packed(trees, pool, rows):
    """`rows` rows of ROW tokens as arrays, of trees from the iterator `trees` and those that `pool` has kept.

    What fills up a row sees itself alone.
    """
    count = rows * ROW
    ids, positions = np.zeros(count, np.int16), np.zeros(count, np.int16)
    starts, prefixes, firsts = (
        np.tile(np.arange(ROW, dtype=np.int16), rows) for _ in range(3)
    )  # within the row: see `Mask`
    at, targets, weights, filled = [], [], [], 0
    for row in range(rows):
        end = 0
        while True:
            pool += [next(trees) for _ in range(POOL - len(pool))]
            fits = next((i for i, tree in enumerate(pool) if end + len(tree[0]) <= ROW), None)
            if fits is None:
                break
            tree_ids, places, branches, parts = pool.pop(fits)
            begin, length = row * ROW + end, len(tree_ids)
            here = slice(begin, begin + length)
            ids[here], positions[here] = tree_ids, places
            starts[here], prefixes[here] = end, end + branches.count(0)
            branches = np.array(branches)
            firsts[here] = end + np.searchsorted(branches, branches)
            parts = np.array(parts)
            wanted = np.flatnonzero(parts[1:] >= 0)
            at.append(begin + wanted)
            targets.append(ids[begin + wanted + 1])
            weights.append(np.array(train.WEIGHTS, np.float32)[parts[wanted + 1]])
            end += length
        filled += end
    most = int(WANTED * count)
    at, targets, weights = (np.concatenate(made)[:most] for made in (at, targets, weights))
    lack = most - len(at)
    return filled, (
        ids,
        positions,
        starts,
        prefixes,
        firsts,
        np.concatenate((at, np.arange(lack))).astype(np.int32),
        np.pad(targets, (0, lack)),
        np.pad(weights, (0, lack)),
    )


def fresh_trees(tokenizer, seed):
    number = 0
    while True:
        tree = train.encode(tokenizer, generator.tree(random.Random("%s/%d" % (seed, number))))
        number += 1
        if max(tree[3]) >= 0 and len(tree[0]) <= ROW:
            yield tree


def make_batches(tokenizer, seed, rows, out):
    """The loop of a process."""
    torch.set_num_threads(1)
    gc.disable()
    trees, pool = fresh_trees(tokenizer, seed), []
    while True:
        out.put(packed(trees, pool, rows))


class Mask:
    """What each token of a batch sees: the prefix of its tree and its own branch, up to itself.

    Its buffers stay where they are, so that compiled code takes every batch for the same.
    """

    def __init__(self, rows, device):
        starts, prefixes, firsts = self.buffers = [
            torch.zeros(rows, ROW, dtype=torch.int32, device=device) for _ in range(3)
        ]

        def sees(row, head, query, key):
            own = (key < prefixes[row, query]) | (key >= firsts[row, query])
            return (key <= query) & (key >= starts[row, query]) & own

        self.sees = sees

    def take(self, values):
        for buffer, value in zip(self.buffers, values):
            buffer.copy_(value.view(buffer.shape))


def layer(x, part, turn, blocks, shape):
    """`model.Model.states`, a layer of it: x [rows, ROW, width]; `part` its parameters by name; turn [rows, ROW, 1, pairs, 2] cos and sin."""
    rows, length, d = x.shape[0], x.shape[1], shape.head_dim
    norm = lambda t, weight: F.rms_norm(t, (shape.width,), weight, shape.eps).bfloat16()
    linear = lambda t, name, bias=None: F.linear(
        t, part[name].bfloat16(), None if bias is None else part[bias].bfloat16()
    )
    heads = lambda t, count: t.view(rows, length, count, d).transpose(1, 2)

    def rotated(t, count):
        even, odd = t.float().view(rows, length, count, d // 2, 2).unbind(-1)
        cos, sin = turn.unbind(-1)
        return heads(
            torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(2).bfloat16(),
            count,
        )

    h = norm(x, part["attn_norm"])
    q = rotated(linear(h, "q", "q_bias") * d**-0.5, shape.heads)
    k = rotated(linear(h, "k", "k_bias"), shape.kv_heads)
    v = heads(linear(h, "v"), shape.kv_heads)
    mixed = flex_attention(q, k, v, block_mask=blocks, scale=1.0, enable_gqa=True)
    x = x + linear(mixed.transpose(1, 2).reshape(rows, length, shape.width), "o")
    h = norm(x, part["ffn_norm"])
    return x + linear(F.silu(linear(h, "gate")) * linear(h, "up"), "down")


def embedded(base, flags, rows):
    """Embeddings of tokens, by their base row and flag; [..., 2] to [..., width]."""
    # A product for the flags: slopes of an index into four rows would be added one after another.
    return F.embedding(rows[..., 0], base) + F.one_hot(rows[..., 1], 4).to(flags) @ flags


def weighed_loss(x, base, flags, norm, token_rows, at, targets, weights, eps):
    """(summed loss, how many targets are right)."""
    states = F.rms_norm(x.flatten(0, 1).index_select(0, at), (x.shape[-1],), norm, eps).bfloat16()
    logits = F.linear(states, embedded(base, flags, token_rows).bfloat16()).float()
    right = ((logits.argmax(-1) == targets) & (weights > 0)).sum()
    return (F.cross_entropy(logits, targets, reduction="none") * weights).sum(), right


class Net:
    """The gradient of a model for batches of so many rows."""

    def __init__(self, model, rows, device, compiled):
        made = torch.compile if compiled else lambda f, **_: f
        self.model, self.rows, self.device, self.mask = model, rows, device, Mask(rows, device)
        self.token_rows = model.token_rows.long()
        self.layer, self.embedded, self.loss, self.blocks = (
            made(f, dynamic=False) for f in (layer, embedded, weighed_loss, create_block_mask)
        )
        self.parts = [
            {name: getattr(each, name) for name in native.PART_OF_LAYER} for each in model.layers
        ]

    def add(self, arrays):
        """Adds the slopes of the mean loss of a batch of `packed`; (loss sum, weight sum, right, targets), on the device."""
        model, shape = self.model, self.model.shape
        ids, positions, *seen, at, targets, weights = (
            torch.from_numpy(a).to(self.device, non_blocking=True) for a in arrays
        )
        self.mask.take(seen)
        blocks = self.blocks(self.mask.sees, self.rows, None, ROW, ROW, device=self.device)
        angle = positions.view(self.rows, ROW, 1, 1) * model.frequency
        turn = torch.stack((angle.cos(), angle.sin()), -1)
        x = self.embedded(
            model.base, model.flags, self.token_rows[ids.long()].view(self.rows, ROW, 2)
        )
        for part in self.parts:
            x = self.layer(x, part, turn, blocks, shape)
        loss, right = self.loss(
            x,
            model.base,
            model.flags,
            model.norm,
            self.token_rows,
            at.long(),
            targets.long(),
            weights,
            shape.eps,
        )
        weight = weights.sum()
        (loss / weight).backward()
        return loss.detach(), weight, right, (weights > 0).sum()


def check(device):
    """Slopes differ from those of `model.py` in float32 by no more than bfloat16 explains."""
    tokenizer = tokens.load(tokens.PATH)
    token_rows, base_count = tokens.spelling_rows(tokenizer)
    model = Model(Shape(layers=2, width=192, heads=6, hidden=64), token_rows, base_count)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * (0.3 if p.ndim == 1 else 0.02))
    source, pool, rows = fresh_trees(tokenizer, "check"), [], 2 if device == "cuda" else 1
    drawn = [next(source) for _ in range(POOL + rows * 8)]
    trees = iter(drawn)
    filled, arrays = packed(trees, pool, rows)
    left = [id(tree) for tree in (*pool, *trees)]
    batch = train.Batch([tree for tree in drawn if id(tree) not in left], model.token_rows)
    assert batch.token_count == filled, (batch.token_count, filled)
    batch.labels = batch.targets.int()  # over the whole vocabulary
    batch.class_bases, batch.class_flags = model.token_rows.T.contiguous()
    batch.class_bias = torch.zeros(len(model.token_rows))
    wanted, _ = model.loss(batch)
    slopes = torch.autograd.grad(wanted / batch.weights.sum(), list(model.parameters()))
    model.to(device)
    loss, weight, _, count = Net(model, rows, device, compiled=device == "cuda").add(arrays)
    assert abs(weight.item() - batch.weights.sum().item()) < 1 and count.item() == len(batch.at)
    off, name = max(
        (((p.grad.cpu() - slope).norm() / slope.norm()).item(), name)
        for (name, p), slope in zip(model.named_parameters(), slopes)
    )
    print(
        "loss %.1f, of model.py in float32 %.1f; slopes off by at most %.4f (%s)"
        % (loss.item(), wanted.item(), off, name)
    )
    assert abs(loss.item() - wanted.item()) < 0.01 * wanted.item() and off < 0.03


def begin(options, tokenizer):
    """(model, tokens that it has seen)."""
    token_rows, base_count = tokens.spelling_rows(tokenizer)
    if not options.start:
        model = Model(
            Shape(width=192, heads=6, hidden=512, layers=8), token_rows, base_count, options.seed
        )  # as train.sh
        train.start(model, tokenizer, token_rows)
        return model, 0
    begun = torch.load(options.start, map_location="cpu", weights_only=True)
    model = Model(Shape(**begun["shape"]), token_rows, base_count)
    model.load_state_dict({name: value.float() for name, value in begun["model"].items()})
    return model, begun["tokens"] + begun.get("tokens_before", 0)


def start_makers(options, tokenizer, before):
    """The queue of batches that other processes fill."""
    generator.tree(random.Random(0))  # what it reads is then there for all
    context = processes.get_context("fork")
    batches = context.Queue(options.processes)
    for number in range(options.processes):
        seed = "gpu/%d+%d/%d" % (options.seed, before, number)
        context.Process(
            target=make_batches, args=(tokenizer, seed, options.rows, batches), daemon=True
        ).start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # an exit, unlike a signal, ends them too
    return batches


def save(path, model, count):
    state = {
        "shape": model.shape.as_dict(),
        "tokens": count,
        "model": {name: value.half().cpu() for name, value in model.state_dict().items()},
    }
    torch.save(state, path + ".part")
    os.replace(path + ".part", path)


def run(options, state_path, opened):
    tokenizer = tokens.load(tokens.PATH)
    model, before = begin(options, tokenizer)
    batches = start_makers(options, tokenizer, before)
    AsyncCompile.wakeup()  # the processes that compile start meanwhile
    model.cuda()
    optimiser = train.Optimiser(model, options.muon_rate, options.adam_rate)
    net = Net(model, options.rows, "cuda", compiled=True)
    AsyncCompile.wait_pool_ready()

    ends, began = opened + options.minutes * 60, opened
    count, steps, waited, sums, logged, saved = 0, 0, 0.0, [], opened, opened

    def report():
        """Logs what came since the last time; exits if the weights are lost."""
        loss, weight, right, targets = torch.stack(sums).sum(0).tolist()
        sums.clear()
        line = {
            "seconds": round(time.time() - opened),
            "steps": steps,
            "tokens": count,
            "loss": round(loss / weight, 4),
            "accuracy": round(right / targets, 4),
            "waited": round(waited, 1),
            "tokens_per_s": round(count / (time.time() - began)),
        }
        print(json.dumps(line), flush=True)
        with open(os.path.join(options.run, "log.jsonl"), "a") as log:
            log.write(json.dumps(line) + "\n")
        if not math.isfinite(loss):
            sys.exit("the loss is no number any more")

    while (now := time.time()) < ends:
        share = (now - began) / (ends - began)  # of the time after all is compiled
        filled, arrays = batches.get(timeout=WAIT)
        waited += time.time() - now
        for p in model.parameters():
            p.grad.zero_()
        sums.append(torch.stack([s.float() for s in net.add(arrays)]))
        factor = train.rate_factor(share, steps)
        optimiser.step_matrices(factor, 0, 1)
        optimiser.step_rest(factor)
        steps += 1
        count += filled
        if steps == 1:
            torch.cuda.synchronize()
            began = time.time()
        if time.time() - logged > 10:
            logged = time.time()
            report()
            if logged - saved > 60:
                saved = logged
                save(state_path, model, before + count)
    if sums:
        report()
    save(state_path, model, before + count)


def main():
    opened = time.time()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--run", help="folder of the state and the log")
    parser.add_argument("--start", help="F16 state to go on from")
    parser.add_argument("--minutes", type=float, default=9, help="in all, until the rate is 0")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--processes", type=int, default=max(1, (os.cpu_count() or 2) - 2), help="that make samples"
    )
    parser.add_argument("--rows", type=int, default=8, help="of %d tokens, per step" % ROW)
    parser.add_argument("--muon-rate", type=float, default=0.006)
    parser.add_argument("--adam-rate", type=float, default=0.004)
    options = parser.parse_args()
    if options.check:
        return check("cuda" if torch.cuda.is_available() else "cpu")
    if not options.run:
        parser.error("--run is missing")
    state_path = os.path.join(options.run, "state-f16.pt")
    if os.path.exists(state_path):
        parser.error(state_path + " is there already; a run is not resumed")
    if options.start and not os.path.exists(options.start):
        parser.error(options.start + " is not there")
    if not torch.cuda.is_available():
        parser.error("no GPU that PyTorch can use; train.py trains on the CPU")
    os.makedirs(options.run, exist_ok=True)
    run(options, state_path, opened)


if __name__ == "__main__":
    main()
