"""Writes the model as a GGUF file that llama.cpp loads.

python export.py --state runs/main/state.pt --out ../models/tenon-tiny.gguf
python export.py --state runs/main/state.pt --out small.gguf --matrices Q5_0 --embeddings Q4_0
python export.py --state runs/main/state.pt --f16 state/tenon-tiny-f16.pt    # to go on from: train.py --start
"""

import argparse
import json
import os

import chatml
import gguf
import numpy as np
import tokenizer as tokens
import torch
from model import Model, Shape

TYPES = ("F16", "Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0")


def load(state_path, tokenizer):
    """Model, shape and number of tokens seen of a training state or of the committed F16 state."""
    state = torch.load(state_path, map_location="cpu", weights_only=True)
    rows, base_count = tokens.spelling_rows(tokenizer)
    model = Model(Shape(**state["shape"]), rows, base_count)
    model.load_state_dict({name: value.float() for name, value in state["model"].items()})
    return model, state["shape"], state["tokens"] + state.get("tokens_before", 0)


def write(model, tokenizer, path, tokens_seen, matrices, embeddings):
    shape = model.shape
    writer = gguf.GGUFWriter(path + ".part", "llama")
    writer.add_name("Tenon tiny")
    writer.add_description(
        "A tool-calling model trained on synthetic data, %.1f M tokens." % (tokens_seen / 1e6)
    )
    writer.add_license("apache-2.0")
    writer.add_file_type(gguf.LlamaFileType["MOSTLY_" + matrices])
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(shape.eps)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_sampling_temp(
        0.0
    )  # for requests that name none: the likeliest token is the best it knows
    writer.add_vocab_size(tokenizer.get_vocab_size())

    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    names = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    kinds = [
        gguf.TokenType.CONTROL if n in chatml.CONTROL_TOKENS else gguf.TokenType.NORMAL
        for n in names
    ]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(names)
    writer.add_token_types(kinds)
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in merges])
    writer.add_bos_token_id(names.index("<|endoftext|>"))
    writer.add_eos_token_id(names.index("<|im_end|>"))
    writer.add_eot_token_id(names.index("<|im_end|>"))
    writer.add_pad_token_id(names.index("<|endoftext|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(chatml.CHAT_TEMPLATE)

    def vector(name, value):
        writer.add_tensor(name, value.detach().float().numpy().astype(np.float32))

    def matrix(name, value, kind=gguf.GGMLQuantizationType[matrices]):
        writer.add_tensor(
            name, gguf.quants.quantize(value.detach().float().numpy(), kind), raw_dtype=kind
        )

    vector("rope_freqs.weight", shape.rope_factors())
    matrix("token_embd.weight", model.table(), gguf.GGMLQuantizationType[embeddings])
    vector("output_norm.weight", model.norm)
    for i, layer in enumerate(model.layers):
        block = "blk.%d." % i
        vector(block + "attn_norm.weight", layer.attn_norm)
        vector(block + "ffn_norm.weight", layer.ffn_norm)
        matrix(block + "attn_q.weight", layer.q)
        matrix(block + "attn_k.weight", layer.k)
        vector(block + "attn_q.bias", layer.q_bias)
        vector(block + "attn_k.bias", layer.k_bias)
        matrix(block + "attn_v.weight", layer.v)
        matrix(block + "attn_output.weight", layer.o)
        matrix(block + "ffn_gate.weight", layer.gate)
        matrix(block + "ffn_up.weight", layer.up)
        matrix(block + "ffn_down.weight", layer.down)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(path + ".part", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--state", required=True)
    parser.add_argument("--out", help="GGUF file to write")
    parser.add_argument("--f16", help="F16 weights to write, without the state of the optimiser")
    parser.add_argument(
        "--matrices", choices=TYPES, default="Q8_0", help="how the numbers of the layers are kept"
    )
    parser.add_argument(
        "--embeddings", choices=TYPES, default="Q8_0", help="how those of the vocabulary are"
    )
    parser.add_argument("--tokenizer", default=tokens.PATH)
    options = parser.parse_args()
    tokenizer = tokens.load(options.tokenizer)
    model, shape, tokens_seen = load(options.state, tokenizer)
    if options.f16:
        os.makedirs(os.path.dirname(options.f16) or ".", exist_ok=True)
        half = {name: value.half() for name, value in model.state_dict().items()}
        torch.save({"shape": shape, "tokens": tokens_seen, "model": half}, options.f16)
    if not options.out:
        return
    write(model, tokenizer, options.out, tokens_seen, options.matrices, options.embeddings)
    print(
        "%s: %d bytes, %d trained parameters"
        % (options.out, os.path.getsize(options.out), sum(p.numel() for p in model.parameters()))
    )


if __name__ == "__main__":
    main()
