"""The network: llama architecture, with a start that already copies and matches.

RMSNorm, SwiGLU, grouped-query attention with biases on q and k, tied
embeddings. A third of the rotary frequencies rotates (`rope_freqs` in the file
stops the others), so that the rest of a head matches content at any distance
and the context is not bound to the training length.

`Model.start` writes a circuit into the first four layers that picks a tool by
the rare words that a request and a declaration share. Trained from random
weights, the network picked tools by chance after four million tokens still;
from this start it picks seven of ten among three on the average after half a million.
"""

from dataclasses import asdict, dataclass

import torch
from torch import nn
from torch.nn import functional as F

STOPPED = 1e30  # a frequency divided by this does not rotate


@dataclass
class Shape:
    width: int = 128
    layers: int = 6
    heads: int = 4
    kv_heads: int = 2
    hidden: int = 256
    rope_base: float = (
        2.45e8  # with heads of 32: frequencies of 1 to .008, so a turn takes from 6 to 785 tokens
    )
    rotating_pairs: int = 5
    eps: float = 1e-5
    context: int = 16384

    @property
    def head_dim(self):
        return self.width // self.heads

    def rope_factors(self):
        pairs = self.head_dim // 2
        return torch.tensor([1.0] * self.rotating_pairs + [STOPPED] * (pairs - self.rotating_pairs))

    def frequencies(self):
        pairs = torch.arange(self.head_dim // 2)
        return self.rope_base ** (-2.0 * pairs / self.head_dim) / self.rope_factors()

    def as_dict(self):
        return asdict(self)


class Layer(nn.Module):
    def __init__(self, s):
        super().__init__()
        kv = s.kv_heads * s.head_dim
        matrix = lambda rows, columns, scale: nn.Parameter(
            torch.randn(rows, columns) * scale / columns**0.5
        )
        self.attn_norm, self.ffn_norm = (
            nn.Parameter(torch.ones(s.width)),
            nn.Parameter(torch.ones(s.width)),
        )
        self.q, self.k = matrix(s.width, s.width, 0.5), matrix(kv, s.width, 0.5)
        self.q_bias, self.k_bias = nn.Parameter(torch.zeros(s.width)), nn.Parameter(torch.zeros(kv))
        self.v, self.o = matrix(kv, s.width, 0.7), matrix(s.width, s.width, 0.04)
        self.gate, self.up = matrix(s.hidden, s.width, 0.7), matrix(s.hidden, s.width, 0.7)
        self.down = matrix(s.width, s.hidden, 0.04)


def class_loss(states, table, bias, labels, weights):
    """(weighted sum of cross entropies, how many are right) of states [n, width] over classes [c, width]."""
    logits = F.linear(states, table.to(states.dtype)).float() + bias
    right = int((logits.argmax(-1) == labels).sum())
    return (F.cross_entropy(logits, labels, reduction="none") * weights).sum(), right


class Model(nn.Module):
    """`rows` and `base_count` as of `tokenizer.spelling_rows`."""

    def __init__(self, shape, rows, base_count, seed=1):
        super().__init__()
        torch.manual_seed(seed)
        self.shape = shape
        self.compute_type = (
            torch.float32
        )  # of activations and products; sums and norms stay float32
        self.base = nn.Parameter(torch.randn(base_count, shape.width) * 0.64)
        self.flags = nn.Parameter(torch.randn(4, shape.width) * 0.16)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.Parameter(torch.full((shape.width,), 0.125))
        self.register_buffer(
            "token_rows", torch.tensor(rows, dtype=torch.int32), persistent=False
        )  # [vocabulary, 2]: base, flag
        self.register_buffer("frequency", shape.frequencies(), persistent=False)

    @torch.no_grad()
    def start(self, mark, turn, user, name, vectors):
        """Heads that copy, and heads that pick a tool by the words that it shares with the request.

        Four base rows: of the token before a tool's name, of the one that opens a turn, of "user" and of "name", which a
        call writes before the name of its tool. `vectors` [base rows, a quarter of the width] are near 0 for common words
        and alike for words of like meaning.

        The residual stream starts in rooms: spelling, meaning, what stood before, the owner (the tool or turn that a token
        belongs to) and what matching has found. Numbers are large beside the rates of training, or it would undo this
        before it has learnt to use it.
        """
        s, d = self.shape, self.shape.head_dim
        group, still = s.heads // s.kv_heads, 2 * s.rotating_pairs
        quarter, room = s.width // 4, s.width // 6
        size = min(room, d)
        matched = min(d - still, size - 3)
        spelling, meaning = slice(4, quarter), slice(quarter, 2 * quarter)
        before, owner, found = (
            slice(s.width - (3 - i) * room, s.width - (3 - i) * room + size) for i in range(3)
        )
        TURN, USER, TOOL, NAME = range(
            4
        )  # the first dimensions of the stream; in the rooms, 0 to 2 as written below

        def directions(place, count):
            """[count, width], orthonormal, within a part of the stream."""
            made = torch.zeros(count, s.width)
            made[:, place] = torch.linalg.qr(torch.randn(place.stop - place.start, count))[0].T
            return made

        def all_of(place):
            made = torch.zeros(size, s.width)
            made[:, place] = torch.eye(size)
            return made

        def by_distance(layer, key_head, query_head, amplitudes, sign=1.0, distance=0):
            """Scores that peak (or, with sign -1, are lowest) at a distance."""
            for pair, amplitude in amplitudes:
                angle = -self.frequency[pair] * distance
                layer.k_bias[key_head * d + 2 * pair] = amplitude
                layer.q_bias[query_head * d + 2 * pair] = sign * amplitude * torch.cos(angle)
                layer.q_bias[query_head * d + 2 * pair + 1] = sign * amplitude * torch.sin(angle)

        self.base[:, :4] = 0
        self.base[:, meaning] = vectors * 0.64
        self.base[:, before.start :] = 0
        self.flags[:, :4] = 0
        self.flags[:, meaning.start :] = 0
        for row, flag in ((mark, TURN), (turn, TURN), (mark, TOOL), (user, USER), (name, NAME)):
            self.base[row, flag] = 4.0
        first, second, third, fourth = self.layers[:4]

        # Layer 0: what stands one, two, three tokens before. The first head keeps whether it is a mark, the second "name".
        read = directions(spelling, size)
        read[:3] = 0
        read[0, TURN] = read[1, TOOL] = read[2, NAME] = 1
        first.v[:size] = read
        first.q[: group * d] *= 0.2
        first.k[:d] *= 0.2
        for head in range(group):
            by_distance(
                first, 0, head, [(pair, 6.5) for pair in range(s.rotating_pairs)], distance=head + 1
            )
            kept = torch.eye(size)
            kept[2, 2] = head == 1
            if head > 0:
                kept[:2, :2] = 0
                kept[3:, 3:] = torch.linalg.qr(torch.randn(size - 3, size - 3))[0] * 0.5
            first.o[before, head * d : head * d + size] = kept * 0.48

        # Layer 1, first: what followed this token before.
        second.k[:d] = 0
        second.k[still : still + matched] = 1.4 * all_of(before)[3 : 3 + matched]
        second.v[:size] = read
        for head in range(group):
            second.q[head * d : (head + 1) * d] = 0
            second.q[head * d + still : head * d + still + matched] = 1.4 * read[3 : 3 + matched]
            second.o[:, head * d : head * d + size] = read.T * 0.32
        # Second: the token after the last mark, which is the first of a tool's name, or the role of a turn.
        second.k[d : 2 * d] = 0
        second.k[d + still] = 3.0 * all_of(before)[0]
        second.q[group * d : (group + 1) * d] = 0
        second.q_bias[group * d + still] = 3.0
        by_distance(second, 1, group, [(3, 6.0), (4, 6.0)])
        about = directions(spelling, size)
        about[:2] = 0
        about[0, USER] = 1
        second.v[d : d + size] = about
        second.v[d + 1] = all_of(before)[1]
        second.o[owner, group * d : group * d + size] = torch.eye(size) * 0.48

        # Layer 2: the owner of tokens that mean the same as this one, rather of those farther off.
        same = directions(meaning, d - still) * 2.0
        third.k[:d], third.q[:d] = 0, 0
        third.k[still:d], third.q[still:d] = same, same
        by_distance(third, 0, 0, [(3, 3.0), (4, 3.0)], sign=-1.0)
        third.v[:size] = all_of(owner)
        third.o[found, :size] = torch.eye(size) * 0.64

        # Layer 3: where a name is to be written, what tokens of the user have found in tools.
        fourth.k[:d], fourth.q[:d] = 0, 0
        for i, key in enumerate((all_of(owner)[0], all_of(found)[1])):
            fourth.k[still + i] = 3.0 * key
            fourth.q[still + i] = 0.6 * all_of(before)[2]
        by_distance(fourth, 0, 0, [(3, 1.0), (4, 1.0)])
        fourth.v[:size] = all_of(found)
        fourth.o[:, :size] = about.T * 2.4

    def embedded(self, bases, flags):
        return self.base[bases.long()] + self.flags[flags.long()]

    def table(self):
        """The whole embedding [vocabulary, width]."""
        return self.embedded(*self.token_rows.T)

    def loss(self, batch):
        """(summed loss, how many targets are right) of a `train.Batch`; `native.Native.add` is the fast way."""
        table = self.embedded(batch.class_bases, batch.class_flags)
        return class_loss(
            self.states(batch), table, batch.class_bias, batch.labels.long(), batch.weights
        )

    def logits(self, batch):
        """Logits of all tokens where the batch has targets."""
        return F.linear(self.states(batch), self.table().to(self.compute_type)).float()

    def states(self, batch):
        """Last states [targets, width] of the tokens before targets."""
        x, positions, mask, wanted = (
            self.embedded(batch.bases, batch.flags),
            batch.positions,
            batch.mask(),
            batch.at.long(),
        )
        s, d, length = self.shape, self.shape.head_dim, len(positions)
        group, exact = s.heads // s.kv_heads, self.compute_type
        turn = torch.polar(torch.ones(1), positions[:, None, None] * self.frequency)
        mask = mask.to(exact)

        def norm(t, weight):
            return F.rms_norm(t, (s.width,), weight, s.eps).to(exact)

        def linear(t, weight, bias=None):
            return F.linear(t, weight.to(exact), None if bias is None else bias.to(exact))

        def heads(t, count):
            return t.view(length, count, d).transpose(0, 1)

        def rotated(t, count):
            pairs = torch.view_as_complex(t.float().view(length, count, d // 2, 2))
            return heads(torch.view_as_real(pairs * turn).flatten(-2).to(exact), count)

        for layer in self.layers:
            h = norm(x, layer.attn_norm)
            q = rotated(linear(h, layer.q, layer.q_bias) * d**-0.5, s.heads).reshape(
                s.kv_heads, group, length, d
            )
            k = rotated(linear(h, layer.k, layer.k_bias), s.kv_heads)[:, None]
            v = heads(linear(h, layer.v), s.kv_heads)[:, None]
            mixed = torch.matmul(torch.softmax(torch.matmul(q, k.transpose(2, 3)) + mask, -1), v)
            x = x + linear(
                mixed.reshape(s.heads, length, d).transpose(0, 1).reshape(length, s.width), layer.o
            )
            h = norm(x, layer.ffn_norm)
            x = x + linear(F.silu(linear(h, layer.gate)) * linear(h, layer.up), layer.down)
        return norm(x[wanted], self.norm)
