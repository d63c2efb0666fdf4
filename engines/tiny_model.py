#!/usr/bin/env python3
"""Writes a small llama model with random weights, a real tokenizer and a chat template.

It says nothing sensible, but it costs what a model costs: a batch takes longer than one request, and a slot is a
slot. The seed is fixed, so every machine gets the same file.
"""

import argparse

import numpy
from gguf import GGUFReader, GGUFWriter

CONTEXT = 8192


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", help="the GGUF file whose tokenizer and chat template are taken")
    parser.add_argument("target", help="the GGUF file to write")
    parser.add_argument("--hidden", type=int, default=128, help="width")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--feed-forward", type=int, default=256, help="width of the feed-forward part")
    options = parser.parse_args()

    fields = {name: field.contents() for name, field in GGUFReader(options.source).fields.items()}
    writer = GGUFWriter(options.target, "llama")
    describe(writer, options, vocabulary=len(fields["tokenizer.ggml.tokens"]))
    copy_tokenizer(writer, fields)
    add_weights(writer, options, vocabulary=len(fields["tokenizer.ggml.tokens"]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def describe(writer: GGUFWriter, options: argparse.Namespace, vocabulary: int) -> None:
    writer.add_name("tiny-random")
    writer.add_context_length(CONTEXT)
    writer.add_vocab_size(vocabulary)
    writer.add_embedding_length(options.hidden)
    writer.add_block_count(options.layers)
    writer.add_feed_forward_length(options.feed_forward)
    writer.add_head_count(options.heads)
    writer.add_head_count_kv(options.heads)
    writer.add_rope_dimension_count(options.hidden // options.heads)
    writer.add_rope_freq_base(100_000.0)
    writer.add_layer_norm_rms_eps(1e-5)


def copy_tokenizer(writer: GGUFWriter, fields: dict) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(fields["tokenizer.ggml.tokens"])
    writer.add_token_types(fields["tokenizer.ggml.token_type"])
    writer.add_token_merges(fields["tokenizer.ggml.merges"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(fields["tokenizer.chat_template"])


def add_weights(writer: GGUFWriter, options: argparse.Namespace, vocabulary: int) -> None:
    random = numpy.random.default_rng(0)

    def matrix(rows: int, columns: int) -> numpy.ndarray:
        return random.normal(0, 0.02, (rows, columns)).astype(numpy.float16)

    hidden, wide = options.hidden, options.feed_forward
    ones = numpy.ones(hidden, numpy.float32)
    # Without an output matrix of its own llama.cpp uses the embedding for both.
    writer.add_tensor("token_embd.weight", matrix(vocabulary, hidden))
    writer.add_tensor("output_norm.weight", ones)
    for layer in range(options.layers):
        block = f"blk.{layer}."
        writer.add_tensor(block + "attn_norm.weight", ones)
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(f"{block}{part}.weight", matrix(hidden, hidden))
        writer.add_tensor(block + "ffn_norm.weight", ones)
        writer.add_tensor(block + "ffn_gate.weight", matrix(wide, hidden))
        writer.add_tensor(block + "ffn_up.weight", matrix(wide, hidden))
        writer.add_tensor(block + "ffn_down.weight", matrix(hidden, wide))


if __name__ == "__main__":
    main()
