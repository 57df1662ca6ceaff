#!/usr/bin/env python3
"""Models of Llama's kind by transformers, with small random weights, beside what Fourfold makes of them.

  compare_llamas.py make KIND TYPE FOLDER       writes a model of the kind, in several files where it is of 16 bits
  compare_llamas.py logits FOLDER FILE WINDOW   the largest difference to the logits of a file, over the largest logit
  compare_llamas.py bytes FOLDER OTHER          whether both hold the same tensors, byte for byte
  compare_llamas.py greedy FOLDER TOKENS COUNT  whether the model would write so many tokens of the list as they stand

Several may follow each other, with the word "then" between them: most of the time goes to the start. Each prints a line, but for
`make`.
"""
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file

POSITIONS, VOCABULARY = 96, 320
SIZES = {"vocab_size": VOCABULARY, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 6,
         "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": POSITIONS, "rms_norm_eps": 1e-5,
         "attn_implementation": "eager"}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 24}
KINDS = {
    "llama": ("Llama", {"tie_word_embeddings": False}),
    "llama3.2": ("Llama", {"tie_word_embeddings": True, "rope_parameters": LLAMA3}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True, "num_key_value_heads": 1}),
    "qwen3": ("Qwen3", {"tie_word_embeddings": False, "head_dim": 16, "num_key_value_heads": 3}),
    "smollm2": ("Llama", {"tie_word_embeddings": True, "num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 72,
                          "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0}}),
    "mistral": ("Mistral", {"sliding_window": None, "num_key_value_heads": 6}),
    "yarn": ("Qwen2", {"rope_parameters": YARN}),
    "biases": ("Llama", {"attention_bias": True, "mlp_bias": True,
                         "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}}),
}


def make(kind, dtype, folder):
    torch.manual_seed(1)
    family, changes = KINDS[kind]
    model = getattr(transformers, f"{family}ForCausalLM")(getattr(transformers, f"{family}Config")(**{**SIZES, **changes}))
    for name, parameter in model.named_parameters():
        is_gain = name.endswith("norm.weight")
        parameter.data.normal_(1 if is_gain else 0, 0.3 if is_gain else 0.15)
    model.to(getattr(torch, dtype)).save_pretrained(folder, max_shard_size="50KB" if dtype != "float32" else "1GB")


def read(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval().float()


@torch.no_grad()
def logits(folder, file, window):
    model, ours = read(folder), load_file(file)
    ids, found, worst, largest = ours["ids"].long(), ours["logits"], 0.0, 0.0
    for begin in range(0, len(found), int(window)):
        end = min(len(found), begin + int(window))
        theirs = model(ids[begin:end][None]).logits[0]
        worst = max(worst, (theirs - found[begin:end]).abs().max().item())
        largest = max(largest, theirs.abs().max().item())
    print(worst / largest)


def tensors_of(folder):
    return {name: tensor for path in sorted(pathlib.Path(folder).glob("*.safetensors")) for name, tensor in load_file(path).items()}


def same_bytes(folder, other):
    one, two = tensors_of(folder), tensors_of(other)
    same = one.keys() == two.keys() and all(
        one[name].dtype == two[name].dtype and one[name].shape == two[name].shape and
        torch.equal(one[name].contiguous().view(torch.uint8), two[name].contiguous().view(torch.uint8)) for name in one)
    print("same" if same else f"differ: {sorted(one.keys() ^ two.keys())}")


@torch.no_grad()
def greedy(folder, tokens, count):
    """Up to the first step at which the two best logits are nearer than 1e-4."""
    model, ids = read(folder), [int(word) for word in tokens.split()]
    for at in range(len(ids) - int(count), len(ids)):
        best = model(torch.tensor(ids[:at])[None]).logits[0, -1].topk(2)
        if best.values[0] - best.values[1] < 1e-4:
            print(f"same up to {at - len(ids) + int(count)}")
            return
        if best.indices[0].item() != ids[at]:
            print(f"differ at {at}: {best.indices[0].item()} instead of {ids[at]}")
            return
    print("same")


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    commands = {"make": make, "logits": logits, "bytes": same_bytes, "greedy": greedy}
    words = sys.argv[1:]
    while words:
        end = words.index("then") if "then" in words else len(words)
        commands[words[0]](*words[1:end])
        words = words[end + 1:]
