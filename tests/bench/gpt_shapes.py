"""GPTs and Llamas that recipes train beside PyTorch: their shapes, as keys of Fourfold, and the work of a step."""
import math
import random

from peers import ONLY_STEPS

GPT2 = dict(layers=12, heads=12, hidden=768, vocab=50304, bias=1)
# A Llama has groups of heads: configs/smollm2-135m.yaml.
SMOLLM2 = dict(layers=30, heads=9, groups=3, hidden=576, ffn=1536, vocab=49152, bias=0, theta=100000)
# `steps` are those of a round, after `warmup` that do not count; `recompute`: by memory.activation_checkpointing.
WORKLOADS = {
    "char": dict(layers=4, heads=4, hidden=128, vocab=65, bias=0, length=64, batch=12, steps=40, warmup=10),
    "b4t64": dict(GPT2, length=64, batch=4, steps=2, warmup=1),
    "b4t256": dict(GPT2, length=256, batch=4, steps=1, warmup=1),
    "b1t1024": dict(GPT2, length=1024, batch=1, steps=1, warmup=1, recompute=True),
    # Shapes that nobody tuned for.
    "l6h384": dict(layers=6, heads=6, hidden=384, vocab=65, bias=0, length=256, batch=8, steps=3, warmup=1),
    "l24h256": dict(layers=24, heads=8, hidden=256, vocab=65, bias=0, length=128, batch=4, steps=6, warmup=2),
    "l3h1024": dict(layers=3, heads=16, hidden=1024, vocab=8192, bias=1, length=128, batch=4, steps=3, warmup=1),
    "l4h512": dict(layers=4, heads=8, hidden=512, vocab=65, bias=0, length=1024, batch=1, steps=4, warmup=1),
    "b4t128": dict(GPT2, length=128, batch=4, steps=1, warmup=1),
    "smollm2": dict(SMOLLM2, length=256, batch=4, steps=1, warmup=1),
}


def is_llama(w):
    return "groups" in w


def title(w):
    """A workload as tables name it."""
    tokens = f"{w['batch']} x {w['length']} tokens" + (", recomputed" if w.get("recompute") else "")
    if w == WORKLOADS["char"]:
        return f"char GPT, {w['layers']} layers of {w['hidden']}, {tokens}"
    if (w["layers"], w["hidden"], w["vocab"]) == (GPT2["layers"], GPT2["hidden"], GPT2["vocab"]):
        return f"GPT-2 124M, {tokens}"
    if SMOLLM2.items() <= w.items():
        return f"SmolLM2-135M, {tokens}"
    return f"{w['layers']} layers of {w['hidden']}, vocabulary {w['vocab']}, {tokens}"


def settings_of(w):
    """A workload as keys of Fourfold: its model on random tokens, AdamW, clipping."""
    model = {"bias": "true" if w["bias"] else "false", "dropout": 0}
    if is_llama(w):
        model = {"kind": "llama", "num_key_value_heads": w["groups"], "ffn_hidden_size": w["ffn"], "rope.theta": w["theta"]}
    return {
        **ONLY_STEPS, **{f"model.{key}": value for key, value in model.items()}, "model.num_layers": w["layers"],
        "model.num_attention_heads": w["heads"], "model.hidden_size": w["hidden"], "model.vocab_size": w["vocab"],
        "model.tied_head": "true", "data.seq_length": w["length"],
        # The evaluation at the end takes the whole split: one sample of 1024 tokens.
        "data.split": 0.995,
        "train.global_batch_size": w["batch"], "train.steps": w["warmup"] + w["steps"], "sample.tokens": 0,
        "optimizer.grad_clip": 1.0, "optimizer.weight_decay": 0.1, "optimizer.lr": 1e-4,
        "memory.activation_checkpointing": "selective" if w.get("recompute") else "none",
    }  # fmt: skip


def draw(count, seed):
    """Shapes between a small character model and a layer or two of GPT-2 large, about a second a round, by name."""
    drawn, found = random.Random(seed), {}
    for number in range(1, count + 1):
        width = drawn.choice([32, 64])
        hidden = 64 * drawn.randint(2, 16)
        w = dict(layers=drawn.randint(1, 12), heads=hidden // width, hidden=hidden, bias=drawn.randint(0, 1),
                 vocab=drawn.choice([65, 256, 2048, 8192, 32000, 50304]), length=2 ** drawn.randint(5, 10),
                 batch=drawn.randint(1, 16), steps=1, warmup=1)  # fmt: skip
        while step_flops(w) > 3e11 and w["batch"] * w["layers"] > 1:
            w["batch"], w["layers"] = (w["batch"] + 1) // 2, (w["layers"] + 1) // 2
        w["steps"] = max(1, min(40, round(1.5e11 / step_flops(w))))
        found[f"random{number}"] = w
    return found


def parameters(w):
    """Of the model, and those that multiply: all but the position table (the tied head's product counts, its lookup is none)."""
    c = w["hidden"]
    if is_llama(w):  # queries and the output, keys and values, the gated MLP; norms have gains alone
        dense = w["layers"] * (2 * c * c + 2 * c * c * w["groups"] // w["heads"] + 3 * c * w["ffn"] + 2 * c) + w["vocab"] * c + c
        return dense, dense
    dense = w["layers"] * (12 * c * c + (9 * c if w["bias"] else 0) + (4 if w["bias"] else 2) * c)
    dense += w["vocab"] * c + (2 if w["bias"] else 1) * c
    return dense + w["length"] * c, dense


def tokens(w):
    """Of a step."""
    return w["batch"] * w["length"]


def step_flops(w):
    """Floating-point operations of a step: 6 a weight and token, and attention over the causal half."""
    return (6 * parameters(w)[1] + 6 * w["layers"] * w["hidden"] * w["length"]) * tokens(w)


def step_bytes(w, bf16):
    """Bytes that AdamW moves in a step: seven passes in float32; in bf16 it writes the rounded weights too."""
    return (30 if bf16 else 28) * parameters(w)[0]


def loss_tolerance(w):
    """How far the first losses of two programs may lie apart, as a part of themselves. Both draw weights with a deviation of
    0.02, so a logit of an untrained model has 0.02 sqrt(hidden), and its mean over the tokens of a step that by the root of their
    number: five such deviations of a difference, of a loss of about log(vocabulary). Synthetic labels follow from the token
    before, so they count as half of the vocabulary at most (for 65 words of width 128, losses of six seeds deviate by 0.035)."""
    return 5 * 0.02 * math.sqrt(2 * w["hidden"] / min(tokens(w), w["vocab"] / 2)) / math.log(w["vocab"])
