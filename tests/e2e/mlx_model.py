"""Writes a GGUF model of the llama architecture as a folder that mlx-lm loads.

    python mlx_model.py models/tenon-tiny.gguf training/state/tokenizer.json OUT

GGUF keeps the two numbers that a rotary frequency turns beside each other, MLX half a head apart; frequencies that
`rope_freqs` divides are its `longrope` with a context no longer than the original one.
"""
import json
import pathlib
import shutil
import sys

import gguf
import numpy as np

NAMES = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
         "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def field(reader, name):
    return reader.fields[name].contents()


def name_of(name):
    if not name.startswith("blk."):
        return {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[name]
    _, layer, part, kind = name.split(".")
    return f"model.layers.{layer}.{NAMES[part]}.{kind}"


def apart(value, heads):
    """Rows of each head: the even ones, then the odd ones."""
    pairs = value.reshape(heads, -1, 2, *value.shape[1:])
    return np.ascontiguousarray(np.swapaxes(pairs, 1, 2)).reshape(value.shape)


def write_safetensors(path, tensors):
    head, at = {}, 0
    for name, value in tensors.items():
        head[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
    text = json.dumps(head).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for value in tensors.values():
            file.write(value.tobytes())


def convert(source, tokenizer, out):
    reader = gguf.GGUFReader(source)
    heads, kv_heads = (field(reader, f"llama.attention.head_count{kind}") for kind in ("", "_kv"))
    width, context = field(reader, "llama.embedding_length"), field(reader, "llama.context_length")
    tensors = {}
    factors = [1.0] * (width // heads // 2)
    for tensor in reader.tensors:
        value = np.ascontiguousarray(gguf.quants.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        if tensor.name == "rope_freqs.weight":
            factors = value.tolist()
            continue
        for part, count in (("attn_q", heads), ("attn_k", kv_heads)):
            if f".{part}." in tensor.name:
                value = apart(value, count)
        tensors[name_of(tensor.name)] = value
    layers = field(reader, "llama.block_count")
    for layer in range(layers):
        for part, rows in (("v", width // heads * kv_heads), ("o", width)):  # MLX has either none or all of the biases
            tensors.setdefault(f"model.layers.{layer}.self_attn.{part}_proj.bias", np.zeros(rows, np.float32))
    out.mkdir(parents=True, exist_ok=True)
    write_safetensors(out / "model.safetensors", tensors)
    names = field(reader, "tokenizer.ggml.tokens")
    (out / "config.json").write_text(json.dumps({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": width, "num_hidden_layers": layers,
        "intermediate_size": field(reader, "llama.feed_forward_length"), "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "rms_norm_eps": field(reader, "llama.attention.layer_norm_rms_epsilon"),
        "vocab_size": len(names), "max_position_embeddings": context, "rope_theta": field(reader, "llama.rope.freq_base"),
        "attention_bias": True, "tie_word_embeddings": True, "eos_token_id": field(reader, "tokenizer.ggml.eos_token_id"),
        "rope_scaling": {"type": "longrope", "original_max_position_embeddings": context,
                         "short_factor": factors, "long_factor": factors}}))
    shutil.copy(tokenizer, out / "tokenizer.json")
    (out / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": names[field(reader, "tokenizer.ggml.eos_token_id")],
        "chat_template": field(reader, "tokenizer.chat_template")}))


if __name__ == "__main__":
    convert(sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]))
