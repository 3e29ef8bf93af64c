"""The processor of logits, over NumPy; PyTorch is tried in the long tests."""

import numpy
import pytest
import tenon

REQUEST = {
    "schema": {
        "type": "object",
        "properties": {"a": {"enum": [1, 2]}},
        "required": ["a"],
        "additionalProperties": False,
    }
}


def generate(processor, prompt, rows, vocab, steps=40, seed=0, swap=False):
    random = numpy.random.default_rng(seed)
    ids = numpy.array([prompt] * rows)
    finished = numpy.zeros(rows, bool)
    for _ in range(steps):
        scores = random.normal(size=(rows, len(vocab) + 24)).astype(numpy.float32)
        chosen = processor(ids, scores).argmax(axis=-1)
        ids = numpy.concatenate([ids, chosen[:, None]], axis=1)
        finished |= numpy.isin(chosen, vocab.ends)
        if finished.all():
            break
        if swap:  # as beams do
            order = random.integers(0, rows, size=rows)
            ids, finished = ids[order], finished[order]
    return ids[:, len(prompt) :], finished


@pytest.mark.parametrize("rows,swap", [(1, False), (4, False), (4, True)])
def test_what_is_generated_is_of_the_grammar(vocab, rows, swap):
    schema = tenon.Schema(REQUEST["schema"])
    processor = tenon.LogitsProcessor(tenon.Grammar(vocab, {**REQUEST, "whitespace": "compact"}))
    ids, finished = generate(processor, [1, 2, 3], rows, vocab, swap=swap)
    for row, is_finished in zip(ids.tolist(), finished):
        ends = [at for at, token in enumerate(row) if token in vocab.ends]
        text = vocab.decode(row[: ends[0]] if ends else row)
        assert is_finished and schema.is_valid_json(text), text


def test_apply_mask():
    scores = numpy.arange(34, dtype=numpy.float32)
    masked = tenon.apply_mask(scores, numpy.array([5], numpy.int32))
    assert numpy.isfinite(masked).nonzero()[0].tolist() == [0, 2] and masked.dtype == numpy.float32
    assert numpy.isfinite(scores).all()


@pytest.mark.parametrize("columns", [0, 40], ids=["as many", "padded"])
def test_one_text_alone(vocab, columns):
    """Without the dimension of a batch."""
    grammar = tenon.Grammar(vocab, REQUEST)
    batch, alone = tenon.LogitsProcessor(grammar), tenon.LogitsProcessor(grammar)
    scores = numpy.random.default_rng(1).normal(size=len(vocab) + columns).astype(numpy.float32)
    ids = [1, 2]
    for _ in range(5):
        expected = batch(numpy.array([ids]), scores[None])
        got = alone(numpy.array(ids), scores)
        assert (
            got.shape == scores.shape
            and (got == expected[0]).all()
            and numpy.isinf(got[len(vocab) :]).all()
        )
        ids.append(int(got.argmax()))


def test_fewer_scores_than_tokens(vocab):
    """A model may have fewer than its tokenizer: what is there is masked, and where nothing is left it says so."""
    grammar = tenon.Grammar(vocab, REQUEST)
    whole = tenon.LogitsProcessor(grammar)(
        numpy.array([[1]]), numpy.zeros((1, len(vocab)), numpy.float32)
    )
    first = int(numpy.isfinite(whole[0]).argmax())
    cut = tenon.LogitsProcessor(grammar)(
        numpy.array([[1]]), numpy.zeros((1, first + 1), numpy.float32)
    )
    assert (cut == whole[:, : first + 1]).all() and numpy.isfinite(cut).sum() == 1
    with pytest.raises(ValueError, match=f"there are {first} scores a row and {len(vocab)} tokens"):
        tenon.LogitsProcessor(grammar)(numpy.array([[1]]), numpy.zeros((1, first), numpy.float32))
    nothing = numpy.zeros((0, 5), numpy.float32)
    assert tenon.LogitsProcessor(grammar)(numpy.zeros((0, 3), int), nothing) is nothing


@pytest.mark.skipif("not config.getoption('--torch')", reason="PyTorch is large: make test-long")
def test_torch(vocab):
    import torch

    matcher = tenon.Matcher(tenon.Grammar(vocab, REQUEST))
    mask = torch.zeros((2, vocab.mask_words), dtype=torch.int32)
    matcher.fill_mask(mask, 1)
    assert mask[0].any().item() is False and mask[1].any().item() is True
    scores = torch.zeros((1, len(vocab)), dtype=torch.bfloat16)
    processor = tenon.LogitsProcessor(matcher.grammar)
    masked = processor(torch.tensor([[1, 2]]), scores)
    assert masked.dtype == torch.bfloat16
    allowed = torch.isfinite(masked[0]).nonzero()[:, 0].tolist()
    assert allowed and all(matcher.copy().accept(token) for token in allowed)
