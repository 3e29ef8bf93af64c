"""The network: llama architecture, with a start that already copies.

RMSNorm, SwiGLU, grouped-query attention with biases on q and k, tied
embeddings. Only the fast half of the rotary frequencies rotates
(`rope_freqs` in the file stops the others), so that the rest of a head matches
content at any distance and the context is not bound to the training length.
Layer 0 starts with heads that look one, two and three tokens back; layer 1
with heads that look for the token after an earlier occurrence of this one.
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
    rope_base: float = 10000.0
    rotating_pairs: int = 7
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
        self.v, self.o = matrix(kv, s.width, .7), matrix(s.width, s.width, .03)
        self.gate, self.up = matrix(s.hidden, s.width, .7), matrix(s.hidden, s.width, .7)
        self.down = matrix(s.width, s.hidden, .03)


class Model(nn.Module):
    """`rows` and `base_count` as of `tokenizer.spelling_rows`."""

    def __init__(self, shape, rows, base_count, seed=1):
        super().__init__()
        torch.manual_seed(seed)
        self.shape = shape
        self.compute_type = torch.float32  # of activations and products; sums and norms stay float32
        self.base = nn.Parameter(torch.randn(base_count, shape.width) * .06)
        self.flags = nn.Parameter(torch.randn(4, shape.width) * .03)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.Parameter(torch.ones(shape.width))
        self.register_buffer("base_of", torch.tensor([base for base, _ in rows]), persistent=False)
        self.register_buffer("flag_of", torch.tensor([flag for _, flag in rows]), persistent=False)
        self.register_buffer("frequency", shape.frequencies(), persistent=False)
        with torch.no_grad():
            self.start_copying()

    def start_copying(self):
        """Previous-token heads in layer 0, matching heads on them in layer 1."""
        s, d = self.shape, self.shape.head_dim
        group = s.heads // s.kv_heads
        first, second = self.layers[0], self.layers[1]
        amplitude, pairs = 5.5, s.rotating_pairs - 2
        read = torch.linalg.qr(torch.randn(s.width, d))[0].T          # [head_dim, width]
        first.v[:d] = read
        for pair in range(pairs):
            first.k_bias[2 * pair] = amplitude
        for head in range(group):
            for pair in range(pairs):
                # A query turned back by `head + 1` positions meets the key of that position.
                angle = -self.frequency[pair] * (head + 1)
                first.q_bias[head * d + 2 * pair] = amplitude * torch.cos(angle)
                first.q_bias[head * d + 2 * pair + 1] = amplitude * torch.sin(angle)
            write = torch.linalg.qr(torch.randn(s.width, d))[0]        # [width, head_dim]
            first.o[:, head * d:(head + 1) * d] = write * .06
            if head == 0:
                content = slice(2 * s.rotating_pairs, d)
                second.k[:d][content] = 1.4 * write.T[content]
                for query in range(group):
                    second.q[query * d:(query + 1) * d][content] = 1.4 * read[content]
        copied = torch.linalg.qr(torch.randn(s.width, d))[0]
        second.v[:d] = copied.T
        for head in range(group):
            second.o[:, head * d:(head + 1) * d] = copied * .04

    def start_meaning(self, vectors):
        """Half of each base row is of `vectors` [base rows, up to half the width], so that words of like meaning are alike."""
        with torch.no_grad():
            self.base[:, -vectors.shape[1]:] = vectors * .06

    def rows(self, tokens):
        """Embeddings of tokens."""
        return F.embedding(self.base_of[tokens], self.base) + F.embedding(self.flag_of[tokens], self.flags)

    def table(self):
        """The whole embedding [vocabulary, width]."""
        return self.rows(torch.arange(len(self.base_of)))

    def forward(self, tokens, positions, mask, wanted, classes=None):
        """Logits at the flat positions `wanted`, of all tokens or of `classes`; `mask` is 0 or -inf, [batch, 1, 1, query, key]."""
        s, d = self.shape, self.shape.head_dim
        batch, length = tokens.shape
        group, exact = s.heads // s.kv_heads, self.compute_type
        x = self.rows(tokens)
        turn = torch.polar(torch.ones(1), positions[:, :, None, None] * self.frequency)
        mask = mask.to(exact)
        block = -(-length // 4)

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
            k = rotate(linear(h, layer.k, layer.k_bias), s.kv_heads)
            # The query heads of a group are stacked along the length, so that k and v need no copies.
            q = q.view(batch, length, s.kv_heads, group, d).permute(0, 2, 3, 1, 4)
            k = k.permute(0, 2, 3, 1)
            v = linear(h, layer.v).view(batch, length, s.kv_heads, d).transpose(1, 2)
            mixed = []
            for start in range(0, length, block):
                # Explicit softmax over the keys up to the end of a block of queries: here faster than the
                # fused attention of the CPU.
                end = min(start + block, length)
                scores = torch.matmul(q[:, :, :, start:end].flatten(2, 3), k[:, :, :, :end])
                scores = scores.view(batch, s.kv_heads, group, end - start, end) + mask[..., start:end, :end]
                weights = torch.softmax(scores, -1).view(batch, s.kv_heads, group * (end - start), end)
                mixed.append(torch.matmul(weights, v[:, :, :end]).view(batch, s.heads, end - start, d))
            mixed = torch.cat(mixed, 2).transpose(1, 2)
            x = x + linear(mixed.reshape(batch, length, s.width), layer.o)
            h = norm(x, layer.ffn_norm)
            x = x + linear(F.silu(linear(h, layer.gate)) * linear(h, layer.up), layer.down)
        x = norm(x.view(-1, s.width)[wanted], self.norm)
        return linear(x, self.table() if classes is None else self.rows(classes)).float()
