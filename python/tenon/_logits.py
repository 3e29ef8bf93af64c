"""Masks for engines that hand out logits: `transformers`, or a loop of one's own over NumPy or PyTorch."""

from __future__ import annotations

from typing import Any

from tenon import _tenon

__all__ = ["LogitsProcessor", "apply_mask"]


def apply_mask(scores: Any, mask: Any) -> Any:
    """`scores` with -inf wherever the mask has no bit, in memory of its own: NumPy arrays or PyTorch tensors, masks as
    Matcher.fill_mask() fills them. Both have one row, or as many as each other."""
    import numpy

    bits = numpy.unpackbits(
        numpy.ascontiguousarray(mask).view(numpy.uint8), axis=-1, bitorder="little"
    )
    size = scores.shape[-1]
    if bits.shape[-1] < size:  # Scores are padded further than the mask.
        bits = numpy.pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, size - bits.shape[-1])])
    forbidden = bits[..., :size] == 0
    if isinstance(scores, numpy.ndarray):
        return numpy.where(forbidden, -numpy.inf, scores).astype(scores.dtype)
    import torch

    return scores.masked_fill(torch.from_numpy(forbidden).to(scores.device), float("-inf"))


class LogitsProcessor:
    """Constrains what `transformers` generates to a grammar.

        model.generate(**inputs, logits_processor=[tenon.LogitsProcessor(grammar)])

    One serves one call of generate(): any number of rows, sampling, and beams, which it follows when they swap places. The prompt
    is what the first call has; the grammar governs what comes after it.
    """

    def __init__(self, grammar: _tenon.Grammar) -> None:
        if not isinstance(grammar, _tenon.Grammar):
            raise TypeError(f"grammar must be a tenon.Grammar, not {type(grammar).__name__}")
        self._grammar = grammar
        self._pool = _tenon.MaskPool()
        self._prompt: int | None = None
        self._rows: list[tuple[list[int], _tenon.Matcher]] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        import numpy

        if input_ids.ndim == 1:  # one text alone
            return self(input_ids[None], scores[None] if scores.ndim == 1 else scores).reshape(
                scores.shape
            )
        rows = input_ids.tolist()
        if not rows:
            return scores
        if self._prompt is None:
            self._prompt = len(rows[0])
        followed = [self._follow(index, row[self._prompt :]) for index, row in enumerate(rows)]
        self._rows = [
            (row[self._prompt :], matcher) for row, matcher in zip(rows, followed, strict=True)
        ]
        words = self._grammar.vocab.mask_words
        masks = numpy.zeros((len(rows), words), numpy.int32)
        running = [index for index, matcher in enumerate(followed) if not matcher.is_finished]
        # The token behind an end is thrown away, but one must be possible.
        masks[[index for index, matcher in enumerate(followed) if matcher.is_finished]] = -1
        self._pool.fill_masks([followed[index] for index in running], masks, running)
        if (size := scores.shape[-1]) < len(self._grammar.vocab):
            _check_some_are_left(masks, size, len(self._grammar.vocab))
        return apply_mask(scores, masks)

    def _follow(self, index: int, tokens: list[int]) -> _tenon.Matcher:
        if not tokens:
            return _tenon.Matcher(self._grammar)
        before = tokens[:-1]
        # A row nearly always continues itself; with beams it may continue another row, and several may continue the same.
        candidates = [self._rows[index], *self._rows] if index < len(self._rows) else self._rows
        for seen, matcher in candidates:
            if seen == before:
                fork = matcher.copy() if len(self._rows) > 1 else matcher
                if not fork.is_finished:
                    fork.accept(
                        tokens[-1]
                    )  # Another logits processor chose a token that was not allowed.
                return fork
        matcher = _tenon.Matcher(self._grammar)
        for token in tokens:
            if matcher.is_finished or not matcher.accept(token):
                break
        return matcher


def _check_some_are_left(masks: Any, size: int, tokens: int) -> None:
    """A model may have fewer scores than its tokenizer has tokens: those are never chosen."""
    import numpy

    bits = numpy.unpackbits(masks.view(numpy.uint8), axis=-1, bitorder="little")[:, :size]
    if not bits.any(axis=-1).all():
        raise ValueError(
            f"there are {size} scores a row and {tokens} tokens in the vocabulary, and none of those that may come next "
            "has a score: is it the vocabulary of this model?"
        )
