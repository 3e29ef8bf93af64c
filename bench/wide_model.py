"""Writes a GGUF with a real tokenizer and a model of random weights that is next to nothing: what is left of a token's time is
what is spent outside the model.

    .venv/bin/python bench/wide_model.py TOKENIZER.json OUT.gguf    # Llama 3's, say: 128,256 tokens
"""

import argparse
import json
import pathlib

import gguf
import numpy as np

WIDTH, HIDDEN, HEADS = 32, 64, 1
QUANTIZED = gguf.GGMLQuantizationType.Q8_0


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("tokenizer", type=pathlib.Path)
    arguments.add_argument("out")
    options = arguments.parse_args()
    tokenizer = json.loads(options.tokenizer.read_text())
    names = {id: name for name, id in tokenizer["model"]["vocab"].items()}
    control = {token["id"] for token in tokenizer["added_tokens"]}
    names |= {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    names = [names[id] for id in range(len(names))]
    dice = np.random.default_rng(1)

    writer = gguf.GGUFWriter(options.out, "llama")
    writer.add_context_length(8192)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(names))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(names)
    writer.add_token_types(
        [
            gguf.TokenType.CONTROL if id in control else gguf.TokenType.NORMAL
            for id in range(len(names))
        ]
    )
    writer.add_token_merges(
        [m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]]
    )
    writer.add_eos_token_id(names.index("<|eot_id|>") if "<|eot_id|>" in names else max(control))

    def vector(name, size):
        writer.add_tensor(name, np.ones(size, dtype=np.float32))

    def matrix(name, rows, columns):
        values = dice.normal(0, 1 / np.sqrt(columns), (rows, columns)).astype(np.float32)
        writer.add_tensor(name, gguf.quants.quantize(values, QUANTIZED), raw_dtype=QUANTIZED)

    matrix("token_embd.weight", len(names), WIDTH)
    vector("output_norm.weight", WIDTH)
    for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
        matrix(f"blk.0.{part}.weight", WIDTH, WIDTH)
    vector("blk.0.attn_norm.weight", WIDTH)
    vector("blk.0.ffn_norm.weight", WIDTH)
    matrix("blk.0.ffn_gate.weight", HIDDEN, WIDTH)
    matrix("blk.0.ffn_up.weight", HIDDEN, WIDTH)
    matrix("blk.0.ffn_down.weight", WIDTH, HIDDEN)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
