"""Trains the model on freshly generated trees; resumes from its own state.

    python train.py --run runs/main --tokens 150                        # until the schedule ends
    python train.py --run runs/main --tokens 150 --minutes 90           # as far as 90 minutes lead
    python train.py --run runs/more --tokens 150 --start state/f16.pt   # goes on from there, with new samples

The learning rate falls slowly with the share of --tokens that are used, and to
0 over the last third. Processes that share the weights each take
micro-batches; matrices are trained with Muon, the rest with Adam. Every sample
is drawn from the seed, the process and its number, so a resumed run goes on
where it stopped.
"""

import argparse
import gc
import json
import math
import os
import random
import re
import signal
import sys
import time

import chatml
import generator
import heldout
import native
import tokenizer as tokens
import torch
import torch.multiprocessing as processes
import vectors
from model import Model, Shape

LONGEST = 960  # tokens of a tree; longer ones lose branches, but for their first
MICRO_BATCH = 2048  # tokens of a micro-batch, about, and at most of a tree (kMaxTree in kernel/)
PROBE_EVERY = 1e7  # tokens between two looks at held-out conversations
SAMPLED_CLASSES = 512
CUT_EVERY = (
    6  # every sixth conversation ends after the name of its first call: more choices per tree
)
# What a token of a reply decides, and how much it weighs: call, question or refusal (the first of a reply); which tool (the
# first of its name); the rest of a name; which key; the rest of the arguments; words of a final sentence that the result
# has, and long numbers, which are hard to copy. All others weigh 1.
PLAIN, FIRST, TOOL, NAME, KEY, VALUE, COPY = range(7)
WEIGHTS = [1.0, 8.0, 8.0, 2.0, 2.0, 2.0, 2.0]
ASK = "Please tell me the"
LONG_NUMBER = re.compile(r"\d{5,}")
WORD = re.compile(r"\w+")
NAME_TEXT = re.compile(r'<tool_call>\n\{"name": "([^"]+)')
ARGUMENTS_TEXT = re.compile(r'"arguments": \{(.*?)\}\}\n</tool_call>', re.DOTALL)
KEY_TEXT = re.compile(r'(?:^|, )"()[^"]+": ')
HERE = os.path.dirname(os.path.abspath(__file__))


def token_parts(text, offsets, result):
    """What each token of a reply decides; `result` is what the tools returned, if it follows on that."""
    parts = [PLAIN] * len(offsets)
    known = set(WORD.findall(result))
    given = [m.span(1) for m in ARGUMENTS_TEXT.finditer(text)]
    copied = [m.span() for m in LONG_NUMBER.finditer(text)] + [
        m.span() for m in WORD.finditer(text) if m.group() in known
    ]
    for i, (start, end) in enumerate(offsets):
        if any(start < last and end > first for first, last in given):
            parts[i] = VALUE
        elif any(start < last and end > first for first, last in copied):
            parts[i] = COPY
    parts[0] = FIRST
    starts = {start: i for i, (start, _) in enumerate(offsets)}
    if text.startswith(ASK):
        parts[starts[len(ASK)]] = KEY
    if text.startswith("<tool_call>"):
        for match in NAME_TEXT.finditer(text):
            for i, (start, end) in enumerate(offsets):
                if match.start(1) <= start and end <= match.end(1):
                    parts[i] = TOOL if start == match.start(1) else NAME
        for first, last in given:
            for match in KEY_TEXT.finditer(text[first:last]):
                if first + match.start(1) in starts:
                    parts[starts[first + match.start(1)]] = KEY
    return parts


def encode(tokenizer, sample):
    """A tree as parallel lists: ids, positions, branch (0 = prefix) and part of each token, -1 where it is no target."""
    declared, system, talks = sample
    ids = tokenizer.encode(chatml.render_prefix(declared, system)).ids
    prefix = len(ids)
    positions, branches, parts = list(range(prefix)), [0] * prefix, [-1] * prefix
    for number, messages in enumerate(talks, 1):
        start = len(ids)
        cut = number % CUT_EVERY == 0
        result = ""
        for text, written in chatml.render_messages(messages):
            if cut and written and text.startswith("<tool_call>"):
                text = text.split('", "arguments"')[0]
            piece = tokenizer.encode(text)
            ids += piece.ids
            if text.startswith("<|im_start|>user"):
                result = text if "<tool_response>" in text else ""
            parts += token_parts(text, piece.offsets, result) if written else [-1] * len(piece.ids)
            if cut and written:
                break
        if len(ids) > LONGEST and number > 1:
            del ids[start:], parts[start:]
            break
        positions += range(prefix, prefix + len(ids) - start)
        branches += [number] * (len(ids) - start)
    return ids, positions, branches, parts


class Batch:
    """Trees one after another, each filled up to a multiple of 32 tokens, as `kernel/` takes them.

    A token sees the prefix of its tree and its own branch up to itself. Targets are tokens of replies only, whose
    predecessor is always in their branch. What fills up sees itself and the prefix, and nothing sees it.
    """

    def __init__(self, trees, rows):
        """`rows` [vocabulary, 2]: base row and flag of each token."""
        tokens, positions, firsts, at, targets, parts, starts = [], [], [], [], [], [], [0]
        for ids, places, branches, decides in trees:
            start, count = len(tokens), len(ids)
            filled = -count % 32
            tokens += ids + [0] * filled
            positions += places + [0] * filled
            begin, last = 0, 0
            for i, branch in enumerate(branches):
                if branch != last:
                    begin, last = i, branch
                firsts.append(begin)
            firsts += range(count, count + filled)
            for i in range(1, count):
                if decides[i] >= 0:
                    at.append(start + i - 1)
                    targets.append(ids[i])
                    parts.append(decides[i])
            starts.append(len(tokens))
        int32 = lambda values: torch.tensor(values, dtype=torch.int32)
        self.token_count = sum(len(t[0]) for t in trees)
        self.ids, self.targets, self.parts = (
            torch.tensor(tokens),
            torch.tensor(targets),
            torch.tensor(parts),
        )
        self.tree_starts, self.prefixes = int32(starts), int32([t[2].count(0) for t in trees])
        self.positions, self.firsts, self.at = int32(positions), int32(firsts), int32(at)
        self.bases, self.flags = rows[self.ids].T.contiguous()
        self.weights = torch.tensor(WEIGHTS)[self.parts]
        self.rows = rows

    def sample_classes(self):
        """Tokens that the loss is taken over: those of the batch, and others drawn at random, which count for those not drawn.

        The whole vocabulary would be a third of the work, and nearly all of it is far from any target.
        """
        vocabulary = len(self.rows)
        present = torch.zeros(vocabulary, dtype=torch.bool)
        present[self.ids] = True
        here, away = present.nonzero().squeeze(1), (~present).nonzero().squeeze(1)
        drawn = away[torch.randperm(len(away))[:SAMPLED_CLASSES]]
        classes = torch.cat((here, drawn))
        label_of = torch.full((vocabulary,), -1, dtype=torch.int32)
        label_of[classes] = torch.arange(len(classes), dtype=torch.int32)
        self.labels = label_of[self.targets]
        self.class_bases, self.class_flags = self.rows[classes].T.contiguous()
        self.class_bias = torch.cat(
            (torch.zeros(len(here)), torch.full((len(drawn),), math.log(len(away) / len(drawn))))
        )

    def mask(self):
        """[tokens, tokens]: 0 where the first sees the second, -inf elsewhere."""
        count = len(self.ids)
        tree = torch.repeat_interleave(torch.arange(len(self.prefixes)), self.tree_starts.diff())
        begin = self.tree_starts[:-1][tree]
        key = torch.arange(count)
        seen = (tree[:, None] == tree) & (key <= key[:, None])
        seen &= (key < (begin + self.prefixes[tree])[:, None]) | (
            key >= (begin + self.firsts)[:, None]
        )
        return torch.zeros(count, count).masked_fill_(~seen, float("-inf"))


class Source:
    """Batches of fresh trees; `drawn` says how far it is, for resuming."""

    def __init__(self, tokenizer, rows, seed, drawn):
        self.tokenizer, self.rows, self.seed, self.drawn = tokenizer, rows, seed, drawn

    def draw(self):
        r = random.Random("%s/%d" % (self.seed, self.drawn))
        self.drawn += 1
        return encode(self.tokenizer, generator.tree(r))

    def take(self):
        trees, count = [], 0
        while count < MICRO_BATCH - LONGEST / 2:
            tree = self.draw()
            if max(tree[3]) >= 0 and len(tree[0]) <= MICRO_BATCH:
                trees.append(tree)
                count += len(tree[0])
        batch = Batch(trees, self.rows)
        batch.sample_classes()
        return batch


def orthogonalise(g):
    """Newton-Schulz iteration of Muon on matrices [count, rows, columns], bf16."""
    flip = g.shape[1] > g.shape[2]
    x = (g / (g.norm(dim=(1, 2), keepdim=True) + 1e-7)).bfloat16()
    x = x.transpose(1, 2) if flip else x
    for _ in range(5):
        a = x @ x.transpose(1, 2)
        x = torch.baddbmm(x, torch.baddbmm(a, a, a, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    return (x.transpose(1, 2) if flip else x).float()


class Optimiser:
    """Muon on matrices, Adam on embeddings, norms and biases. Slopes and momenta are in memory that all processes see."""

    def __init__(self, model, muon_rate, adam_rate):
        named = dict(model.named_parameters())
        self.matrices = [p for n, p in named.items() if p.ndim == 2 and n.startswith("layers.")]
        self.rest = [p for n, p in named.items() if not (p.ndim == 2 and n.startswith("layers."))]
        self.muon_rate, self.adam_rate = muon_rate, adam_rate
        self.momentum = [torch.zeros_like(p).share_memory_() for p in self.matrices]
        for p in model.parameters():
            p.grad = torch.zeros_like(p).share_memory_()
        self.adam = torch.optim.Adam(self.rest, lr=adam_rate, betas=(0.9, 0.98), eps=1e-10)
        alike = {}
        for i, p in enumerate(self.matrices):
            alike.setdefault(p.shape, []).append(i)
        self.alike = list(alike.values())  # matrices that are stepped together

    def step_rest(self, factor):
        for group in self.adam.param_groups:
            group["lr"] = self.adam_rate * factor
        self.adam.step()

    def step_matrices(self, factor, share, shares):
        """Every matrix is stepped by one of the processes."""
        for alike in self.alike:
            mine = alike[share::shares]
            if not mine:
                continue
            slopes = torch.stack([self.matrices[i].grad for i in mine])
            momenta = (
                torch.stack([self.momentum[i] for i in mine]).mul_(0.95).add_(slopes, alpha=0.05)
            )
            steps = orthogonalise(slopes.mul_(0.05).add_(momenta, alpha=0.95))
            scale = max(1.0, slopes.shape[1] / slopes.shape[2]) ** 0.5
            for i, momentum, step in zip(mine, momenta, steps):
                self.momentum[i].copy_(momentum)
                self.matrices[i].data.add_(step, alpha=-self.muon_rate * factor * scale)

    def state(self):
        return {"momentum": self.momentum, "adam": self.adam.state_dict()}

    def load(self, state):
        for mine, saved in zip(self.momentum, state["momentum"]):
            mine.copy_(saved)
        self.adam.load_state_dict(state["adam"])


class Worker:
    """Adds up gradients of micro-batches in memory that all processes see."""

    def __init__(self, model, tokenizer, seed, number, drawn, left):
        self.left = left  # micro-batches of this step that nobody has taken
        self.source = Source(tokenizer, model.token_rows, "%s/%d" % (seed, number), drawn)
        self.sums = [torch.zeros_like(p).share_memory_() for p in model.parameters()]
        self.gradient = native.gradient_of(model, self.sums)
        self.next = None

    def take_one(self):
        with self.left.get_lock():
            self.left.value -= 1
            return self.left.value >= 0

    def prepare(self):
        self.next = self.next or self.source.take()

    def run(self):
        """Works until nothing is left; returns [loss sum, weight sum, right, targets, tokens]."""
        for s in self.sums:
            s.zero_()
        self.gradient.pack()
        seen = [0.0, 0.0, 0, 0, 0]
        while self.take_one():
            self.prepare()
            batch, self.next = self.next, None
            loss, right = self.gradient.add(batch)
            found = (loss, batch.weights.sum().item(), right, len(batch.targets), batch.token_count)
            seen = [a + b for a, b in zip(seen, found)]
        return seen


class Team:
    """This process and its helpers, one gradient and one step together."""

    def __init__(self, model, optimiser, tokenizer, seed, count, drawn):
        self.model, self.optimiser, self.drawn = model, optimiser, (drawn + [0] * count)[:count]
        model.share_memory()
        context = processes.get_context("fork")
        self.left = context.Value("i", 0)
        self.workers = [
            Worker(model, tokenizer, seed, i, self.drawn[i], self.left) for i in range(count)
        ]
        self.pipes = []
        for number in range(1, count):
            here, there = context.Pipe()
            context.Process(target=self.serve, args=(number, there), daemon=True).start()
            self.pipes.append(here)

    def serve(self, number, pipe):
        """The loop of a helper: a gradient, then a step by the factor that comes; micro-batches are made while it waits."""
        torch.set_num_threads(1)
        worker = self.workers[number]
        while pipe.recv():
            pipe.send((worker.run(), worker.source.drawn))
            worker.prepare()
            self.optimiser.step_matrices(pipe.recv(), number, len(self.workers))
            pipe.send(None)

    def step(self, micro_batches, factor):
        """One step by the mean loss; returns (loss, token accuracy, tokens)."""
        self.left.value = micro_batches
        for pipe in self.pipes:
            pipe.send(True)
        seen = [self.workers[0].run()]
        self.drawn[0] = self.workers[0].source.drawn
        for i, pipe in enumerate(self.pipes, 1):
            counts, self.drawn[i] = pipe.recv()
            seen.append(counts)
        loss, weight, right, targets, count = map(sum, zip(*seen))
        for p, *parts in zip(self.model.parameters(), *(w.sums for w in self.workers)):
            p.grad.copy_(sum(parts)).div_(weight)
        for pipe in self.pipes:
            pipe.send(factor)
        self.optimiser.step_matrices(factor, 0, len(self.workers))
        self.optimiser.step_rest(factor)
        for pipe in self.pipes:
            pipe.recv()
        return loss / weight, right / targets, count

    def stop(self):
        for pipe in self.pipes:
            pipe.send(False)


def judge(model, probes):
    """Of the probes of each kind, given the right beginning: [what to do is right, and the names, and all of it].

    "picks": of the calls whose tools' names begin differently, in how many the right one is likelier than the others.
    """
    found, picks, calls = {}, 0, 0
    with torch.no_grad():
        for kind, cases in probes.items():
            sums = [0, 0, 0]
            for batch, names in cases:
                logits = model.logits(batch)
                good = logits.argmax(-1) == batch.targets
                first = bool(good[batch.parts == FIRST][-1])
                called = first and bool(good[(batch.parts == NAME) | (batch.parts == TOOL)].all())
                sums = [a + b for a, b in zip(sums, (first, called, called and bool(good.all())))]
                if kind == "call" and len(set(names)) == len(names):
                    at = (batch.parts == TOOL).nonzero()[0, 0]
                    picks += bool(logits[at, batch.targets[at]] >= logits[at, names].max())
                    calls += 1
            found[kind] = [round(s / len(cases), 3) for s in sums]
    return {**found, "picks": round(picks / calls, 3)}


def probe_batches(tokenizer, rows, kinds):
    """Kind -> (batch of one conversation, to be judged by its last reply; first tokens of the names of its tools)."""
    made = {}
    for kind, conversations in kinds.items():
        made[kind] = []
        for tools, messages in conversations:
            ids, positions, branches, parts = encode(tokenizer, (tools, "", [messages]))
            last = max(i for i, part in enumerate(parts) if part == FIRST)
            names = [tokenizer.encode('"' + tool["function"]["name"]).ids[1] for tool in tools]
            made[kind].append(
                (Batch([(ids, positions, branches, [-1] * last + parts[last:])], rows), names)
            )
    return made


def start(model, tokenizer, rows):
    """Gives a new model the circuit that `Model.start` describes."""
    row = lambda text: rows[tokenizer.encode(text).ids[0]][0]
    model.start(
        row(chatml.MARK),
        row("<|im_start|>"),
        row("user"),
        row("name"),
        vectors.start(tokenizer, model.shape.width // 4),
    )


def rate_factor(share, steps):
    """Share of the full learning rate: a short warm-up, a slow fall to .6, then one to 0."""
    return min((steps + 1) / 60, 1 - 0.6 * share, 1.8 * (1 - share))


def save(path, model, optimiser, team, progress):
    state = {
        "shape": model.shape.as_dict(),
        "model": model.state_dict(),
        "optimiser": optimiser.state(),
        "drawn": team.drawn,
        **progress,
    }
    torch.save(state, path + ".part")
    os.replace(path + ".part", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", required=True, help="folder of the state and the log")
    parser.add_argument("--tokenizer", default=tokens.PATH)
    parser.add_argument(
        "--tokens", type=float, default=150, help="length of the schedule in million tokens"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        help="stop after so long, wherever the schedule is",
    )
    parser.add_argument("--start", help="F16 state to go on from, within the same schedule")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--micro-batches", type=int, default=4, help="per step")
    parser.add_argument("--muon-rate", type=float, default=0.003)
    parser.add_argument("--adam-rate", type=float, default=0.002)
    parser.add_argument(
        "--probes", type=int, default=50, help="held-out conversations of each kind"
    )
    parser.add_argument(
        "--shape",
        default="{}",
        help="JSON of the fields of Shape that differ; beside --start only more layers, new ones behind those that are there",
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    gc.disable()  # samples have no cycles, and looking for some takes longer than making them
    os.makedirs(options.run, exist_ok=True)
    state_path, log_path = (
        os.path.join(options.run, "state.pt"),
        os.path.join(options.run, "log.jsonl"),
    )

    tokenizer = tokens.load(options.tokenizer)
    rows, base_count = tokens.spelling_rows(tokenizer)
    saved = torch.load(state_path, weights_only=True) if os.path.exists(state_path) else None
    begun = saved or (torch.load(options.start, weights_only=True) if options.start else None)
    shape = {**(begun["shape"] if begun else {}), **json.loads(options.shape)}
    model = Model(Shape(**shape), rows, base_count, options.seed)
    model.compute_type = torch.bfloat16
    if begun:
        weights = {name: value.float() for name, value in begun["model"].items()}
        model.load_state_dict({**model.state_dict(), **weights})
    else:
        start(model, tokenizer, rows)
    drawn = saved["drawn"] if saved else []  # of each process
    progress = {
        "tokens": 0,
        "steps": 0,
        "seconds": 0.0,
        "tokens_before": begun["tokens"] if begun else 0,
    }  # before: by the state of --start
    if saved:
        progress = {name: saved[name] for name in progress}
    optimiser = Optimiser(model, options.muon_rate, options.adam_rate)
    if saved:
        optimiser.load(saved["optimiser"])
    probes = probe_batches(tokenizer, model.token_rows, heldout.probes(options.probes))

    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(1)
    )  # an exit, unlike a signal, ends the helpers too
    team = Team(
        model,
        optimiser,
        tokenizer,
        "%d+%d" % (options.seed, progress["tokens_before"]),
        options.processes,
        drawn,
    )

    opened = time.time()
    began = opened - progress["seconds"]
    last_log, last_save, last_probe, window = opened, opened, progress["tokens"], []
    while True:
        progress["seconds"] = time.time() - began
        share = (progress["tokens"] + progress["tokens_before"]) / (options.tokens * 1e6)
        if share >= 1 or time.time() - opened > options.minutes * 60:
            break
        loss, accuracy, count = team.step(
            options.micro_batches, rate_factor(share, progress["steps"])
        )
        progress["steps"] += 1
        progress["tokens"] += count
        window.append((loss, accuracy))
        if time.time() - last_log > 20:
            last_log = time.time()
            n = len(window)
            line = {
                "seconds": round(progress["seconds"]),
                "steps": progress["steps"],
                "tokens": progress["tokens"],
                "loss": round(sum(loss for loss, _ in window) / n, 4),
                "accuracy": round(sum(a for _, a in window) / n, 4),
            }
            window = []
            if progress["tokens"] - last_probe > PROBE_EVERY:
                last_probe = progress["tokens"]
                line["held"] = judge(model, probes)
            with open(log_path, "a") as log:
                log.write(json.dumps(line) + "\n")
        if time.time() - last_save > 120:
            last_save = time.time()
            save(state_path, model, optimiser, team, progress)
    save(state_path, model, optimiser, team, progress)
    team.stop()
    with open(log_path, "a") as log:
        log.write(
            json.dumps(
                {
                    "seconds": round(progress["seconds"]),
                    "tokens": progress["tokens"],
                    "held": judge(model, probes),
                }
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
