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
    rope_base: float = 2.45e8  # with heads of 32: frequencies of 1 to .008, so a turn takes from 6 to 785 tokens
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
        matrix = lambda rows, columns, scale: nn.Parameter(torch.randn(rows, columns) * scale / columns ** .5)
        self.attn_norm, self.ffn_norm = nn.Parameter(torch.ones(s.width)), nn.Parameter(torch.ones(s.width))
        self.q, self.k = matrix(s.width, s.width, .5), matrix(kv, s.width, .5)
        self.q_bias, self.k_bias = nn.Parameter(torch.zeros(s.width)), nn.Parameter(torch.zeros(kv))
        self.v, self.o = matrix(kv, s.width, .7), matrix(s.width, s.width, .04)
        self.gate, self.up = matrix(s.hidden, s.width, .7), matrix(s.hidden, s.width, .7)
        self.down = matrix(s.width, s.hidden, .04)


class Attention(torch.autograd.Function):
    """Softmax over the keys up to the end of each of four blocks of queries: on a CPU faster than its fused attention.

    q [batch, kv heads, group, length, d] is scaled; k and v are [batch, kv heads, length, d]; mask is 0 or -inf,
    [batch, 1, 1, length, length].
    """

    @staticmethod
    def blocks(length):
        size = -(-length // 4)
        return [(start, min(start + size, length)) for start in range(0, length, size)]

    @staticmethod
    def forward(ctx, q, k, v, mask):
        batch, kv, group, length, d = q.shape
        out, kept = torch.empty_like(q), []
        for start, end in Attention.blocks(length):
            scores = torch.matmul(q[:, :, :, start:end].flatten(2, 3), k[:, :, :end].transpose(2, 3))
            scores.view(batch, kv, group, end - start, end).add_(mask[..., start:end, :end])
            weights = torch.softmax(scores, -1)
            out[:, :, :, start:end] = torch.matmul(weights, v[:, :, :end]).view(batch, kv, group, end - start, d)
            kept.append(weights)
        ctx.save_for_backward(q, k, v, *kept)
        return out

    @staticmethod
    def backward(ctx, slope):
        q, k, v, *kept = ctx.saved_tensors
        batch, kv, group, length, d = q.shape
        dq, dk, dv = torch.empty_like(q), torch.zeros_like(k, dtype=torch.float32), torch.zeros_like(v, dtype=torch.float32)
        for weights, (start, end) in zip(kept, Attention.blocks(length)):
            block = slope[:, :, :, start:end].flatten(2, 3)
            dv[:, :, :end] += torch.matmul(weights.transpose(2, 3), block)
            ds = torch.matmul(block, v[:, :, :end].transpose(2, 3))
            ds = torch._softmax_backward_data(ds, weights, -1, weights.dtype)
            dq[:, :, :, start:end] = torch.matmul(ds, k[:, :, :end]).view(batch, kv, group, end - start, d)
            dk[:, :, :end] += torch.matmul(ds.transpose(2, 3), q[:, :, :, start:end].flatten(2, 3))
        return dq, dk.to(k.dtype), dv.to(v.dtype), None


class ClassLoss(torch.autograd.Function):
    """(weighted sum of cross entropies, how many are right) of states [n, width] over classes [c, width].

    The gradient is made with the loss, so the loss may only be added to, never scaled.
    """

    @staticmethod
    def forward(ctx, states, table, bias, labels, weights):
        table = table.to(states.dtype)
        logits = F.linear(states, table).float().add_(bias)
        right = (logits.argmax(-1) == labels).sum()
        logits.sub_(logits.logsumexp(-1, keepdim=True))
        loss = -(logits.gather(1, labels[:, None]).squeeze(1) * weights).sum()
        slope = logits.exp_()
        slope.scatter_add_(1, labels[:, None], torch.full((len(labels), 1), -1.0))
        slope = slope.mul_(weights[:, None]).to(states.dtype)
        ctx.save_for_backward(slope @ table, slope.T @ states)
        ctx.mark_non_differentiable(right)
        return loss, right

    @staticmethod
    def backward(ctx, _, __):
        return *ctx.saved_tensors, None, None, None


class Model(nn.Module):
    """`rows` and `base_count` as of `tokenizer.spelling_rows`."""

    def __init__(self, shape, rows, base_count, seed=1):
        super().__init__()
        torch.manual_seed(seed)
        self.shape = shape
        self.compute_type = torch.float32  # of activations and products; sums and norms stay float32
        self.base = nn.Parameter(torch.randn(base_count, shape.width) * .64)
        self.flags = nn.Parameter(torch.randn(4, shape.width) * .16)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.Parameter(torch.full((shape.width,), .125))
        self.register_buffer("base_of", torch.tensor([base for base, _ in rows]), persistent=False)
        self.register_buffer("flag_of", torch.tensor([flag for _, flag in rows]), persistent=False)
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
        before, owner, found = (slice(s.width - (3 - i) * room, s.width - (3 - i) * room + size) for i in range(3))
        TURN, USER, TOOL, NAME = range(4)  # the first dimensions of the stream; in the rooms, 0 to 2 as written below

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
        self.base[:, meaning] = vectors * .64
        self.base[:, before.start:] = 0
        self.flags[:, :4] = 0
        self.flags[:, meaning.start:] = 0
        for row, flag in ((mark, TURN), (turn, TURN), (mark, TOOL), (user, USER), (name, NAME)):
            self.base[row, flag] = 4.0
        first, second, third, fourth = self.layers[:4]

        # Layer 0: what stands one, two, three tokens before. The first head keeps whether it is a mark, the second "name".
        read = directions(spelling, size)
        read[:3] = 0
        read[0, TURN] = read[1, TOOL] = read[2, NAME] = 1
        first.v[:size] = read
        first.q[:group * d] *= .2
        first.k[:d] *= .2
        for head in range(group):
            by_distance(first, 0, head, [(pair, 6.5) for pair in range(s.rotating_pairs)], distance=head + 1)
            kept = torch.eye(size)
            kept[2, 2] = head == 1
            if head > 0:
                kept[:2, :2] = 0
                kept[3:, 3:] = torch.linalg.qr(torch.randn(size - 3, size - 3))[0] * .5
            first.o[before, head * d:head * d + size] = kept * .48

        # Layer 1, first: what followed this token before.
        second.k[:d] = 0
        second.k[still:still + matched] = 1.4 * all_of(before)[3:3 + matched]
        second.v[:size] = read
        for head in range(group):
            second.q[head * d:(head + 1) * d] = 0
            second.q[head * d + still:head * d + still + matched] = 1.4 * read[3:3 + matched]
            second.o[:, head * d:head * d + size] = read.T * .32
        # Second: the token after the last mark, which is the first of a tool's name, or the role of a turn.
        second.k[d:2 * d] = 0
        second.k[d + still] = 3.0 * all_of(before)[0]
        second.q[group * d:(group + 1) * d] = 0
        second.q_bias[group * d + still] = 3.0
        by_distance(second, 1, group, [(3, 6.0), (4, 6.0)])
        about = directions(spelling, size)
        about[:2] = 0
        about[0, USER] = 1
        second.v[d:d + size] = about
        second.v[d + 1] = all_of(before)[1]
        second.o[owner, group * d:group * d + size] = torch.eye(size) * .48

        # Layer 2: the owner of tokens that mean the same as this one, rather of those farther off.
        same = directions(meaning, d - still) * 2.0
        third.k[:d], third.q[:d] = 0, 0
        third.k[still:d], third.q[still:d] = same, same
        by_distance(third, 0, 0, [(3, 3.0), (4, 3.0)], sign=-1.0)
        third.v[:size] = all_of(owner)
        third.o[found, :size] = torch.eye(size) * .64

        # Layer 3: where a name is to be written, what tokens of the user have found in tools.
        fourth.k[:d], fourth.q[:d] = 0, 0
        for i, key in enumerate((all_of(owner)[0], all_of(found)[1])):
            fourth.k[still + i] = 3.0 * key
            fourth.q[still + i] = .6 * all_of(before)[2]
        by_distance(fourth, 0, 0, [(3, 1.0), (4, 1.0)])
        fourth.v[:size] = all_of(found)
        fourth.o[:, :size] = about.T * 2.4

    def rows(self, tokens):
        """Embeddings of tokens."""
        return F.embedding(self.base_of[tokens], self.base) + F.embedding(self.flag_of[tokens], self.flags)

    def table(self):
        """The whole embedding [vocabulary, width]."""
        return self.rows(torch.arange(len(self.base_of)))

    def forward(self, tokens, positions, mask, wanted, classes):
        """(states at the flat positions `wanted`, embeddings of `classes`), whose products are logits.

        `mask` is 0 or -inf, [batch, 1, 1, query, key].
        """
        rows = self.rows(torch.cat((tokens.view(-1), classes)))
        x = rows[:tokens.numel()].view(*tokens.shape, -1)
        return self.states(x, positions, mask, wanted), rows[tokens.numel():]

    def logits(self, tokens, positions, mask, wanted):
        """Logits of all tokens at the flat positions `wanted`."""
        return F.linear(self.states(self.rows(tokens), positions, mask, wanted), self.table().to(self.compute_type)).float()

    def states(self, x, positions, mask, wanted):
        s, d = self.shape, self.shape.head_dim
        batch, length = positions.shape
        group, exact = s.heads // s.kv_heads, self.compute_type
        turn = torch.polar(torch.ones(1), positions[:, :, None, None] * self.frequency)
        mask = mask.to(exact)

        def norm(t, weight):
            return F.rms_norm(t, (s.width,), weight, s.eps).to(exact)

        def linear(t, weight, bias=None):
            return F.linear(t, weight.to(exact), None if bias is None else bias.to(exact))

        def rotate(t, heads):
            pairs = torch.view_as_complex(t.float().view(batch, length, heads, d // 2, 2))
            return torch.view_as_real(pairs * turn).flatten(-2).to(exact)

        for layer in self.layers:
            h = norm(x, layer.attn_norm)
            q = rotate(linear(h, layer.q, layer.q_bias) * d ** -.5, s.heads)
            k = rotate(linear(h, layer.k, layer.k_bias), s.kv_heads).transpose(1, 2)
            v = linear(h, layer.v).view(batch, length, s.kv_heads, d).transpose(1, 2)
            # The query heads of a group are stacked along the length, so that k and v need no copies.
            q = q.view(batch, length, s.kv_heads, group, d).permute(0, 2, 3, 1, 4)
            mixed = Attention.apply(q, k, v, mask).view(batch, s.heads, length, d).transpose(1, 2)
            x = x + linear(mixed.reshape(batch, length, s.width), layer.o)
            h = norm(x, layer.ffn_norm)
            x = x + linear(F.silu(linear(h, layer.gate)) * linear(h, layer.up), layer.down)
        return norm(x.view(-1, s.width)[wanted], self.norm)
