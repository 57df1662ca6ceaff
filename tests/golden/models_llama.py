"""The model of Llama, Qwen2 and Qwen3 in the golden runs, written with PyTorch's own functions; its rotary positions by the
formulas of their papers. models.py has the others, and what all of them say of themselves."""
# B batch, T time, C channels, G groups, R heads of a group, D head width, F ffn width, V vocabulary, P positions
import dataclasses
import math

import torch
from models import LAYERS, NORM_EPSILON, C, Gpt, P, T, V, cross_entropy_sum
from torch.nn import functional

D, F = 6, 40


@dataclasses.dataclass(frozen=True)
class Rope:
    """How the frequencies are changed for long texts, by the names of the configuration."""

    kind: str = "default"
    theta: float = 100.0
    factor: float = 1.0
    original_positions: int = P
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0

    def frequencies(self):
        pairs = torch.arange(0, D, 2, dtype=torch.float64)
        plain = self.theta ** (-pairs / D)
        if self.kind == "linear":
            return plain / self.factor
        if self.kind == "llama3":  # the code that came with Llama 3.1
            turns = self.original_positions * plain / (2 * math.pi)
            smooth = ((turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)).clamp(0, 1)
            return (1 - smooth) * plain / self.factor + smooth * plain
        if self.kind == "yarn":  # arXiv:2309.00071, equations 17 to 23, in the form of transformers
            low, high = (D * math.log(self.original_positions / (turns * 2 * math.pi)) / (2 * math.log(self.theta))
                         for turns in (self.beta_fast, self.beta_slow))
            low, high = max(math.floor(low), 0), min(math.ceil(high), D - 1)
            ramp = ((pairs / 2 - low) / max(high - low, 0.001)).clamp(0, 1)
            return ramp * plain / self.factor + (1 - ramp) * plain
        return plain

    def size(self):
        return 0.1 * math.log(self.factor) + 1 if self.kind == "yarn" else 1.0

    def turned(self, x):
        """x (B, ..., T, D): elements i and D/2 + i are a pair."""
        angles = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * self.frequencies()
        cos, sin = (part.to(x.dtype) * self.size() for part in (angles.cos(), angles.sin()))
        first, second = x[..., :D // 2], x[..., D // 2:]
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


@dataclasses.dataclass(frozen=True)
class Llama(Gpt):
    """RMS norms before each branch, heads in groups, rotary positions, a gated MLP."""

    groups: int = 2
    of_group: int = 2
    attention_bias: str = "none"
    head_norm: bool = False
    rope: Rope = Rope()

    def shapes(self):
        result = {"wte.weight": (V, C)}
        qkv = (self.groups, self.of_group + 2, D)
        for layer in range(LAYERS):
            block = {
                "ln1.gain": (C,), "attn.qkv.weight": (C, *qkv), "attn.qkv.bias": qkv,
                "attn.q_norm.gain": (D,), "attn.k_norm.gain": (D,),
                "attn.out.weight": (self.groups, self.of_group, D, C), "attn.out.bias": (C,),
                "ln2.gain": (C,),
                "mlp.up.weight": (C, 2, F), "mlp.up.bias": (2, F),
                "mlp.down.weight": (F, C), "mlp.down.bias": (C,),
            }
            result.update({f"blocks.{layer}.{name}": shape for name, shape in block.items() if self.has(name)})
        result["ln_f.gain"] = (C,)
        if not self.tied:
            result["head.weight"] = (C, V)
        return result

    def has(self, name):
        if name.endswith("_norm.gain"):
            return self.head_norm
        biases = {"attn.qkv.bias": self.attention_bias != "none", "attn.out.bias": self.attention_bias == "all",
                  "mlp.up.bias": self.bias, "mlp.down.bias": self.bias}
        return biases.get(name, True)

    def initial_weight(self, name, shape, generator):
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        if name.endswith(".gain"):
            return 1 + 0.3 * values
        if name.endswith(".bias") or name.startswith("wte"):
            return 0.3 * values
        inputs = math.prod(shape[:3]) if name.endswith("attn.out.weight") else shape[0]
        return 1.2 / inputs**0.5 * values

    def logits(self, weights, tokens_BT):
        batch, time = tokens_BT.shape
        heads = self.groups * self.of_group
        x = functional.embedding(tokens_BT, weights["wte.weight"])
        for layer in range(LAYERS):
            block = f"blocks.{layer}"
            qkv = product(norm(x, weights, f"{block}.ln1"), weights, f"{block}.attn.qkv", 1)
            qkv = qkv.view(batch, time, self.groups, self.of_group + 2, D).permute(0, 2, 3, 1, 4)
            q, k, v = qkv[:, :, :self.of_group], qkv[:, :, -2:-1], qkv[:, :, -1:]
            if self.head_norm:
                q = norm(q, weights, f"{block}.attn.q_norm")
                k = norm(k, weights, f"{block}.attn.k_norm")
            q, k = self.rope.turned(q), self.rope.turned(k)
            y = functional.scaled_dot_product_attention(q, k.expand_as(q), v.expand_as(q), is_causal=True)
            y = y.permute(0, 3, 1, 2, 4).reshape(batch, time, heads * D)
            x = x + product(y, weights, f"{block}.attn.out", 3)
            up = product(norm(x, weights, f"{block}.ln2"), weights, f"{block}.mlp.up", 1)
            gate, up = up.split(F, dim=-1)
            x = x + product(functional.silu(gate) * up, weights, f"{block}.mlp.down", 1)
        x = norm(x, weights, "ln_f")
        head = weights["head.weight"] if "head.weight" in weights else weights["wte.weight"].t()
        return x @ head

    def loss_sum(self, weights, batch, step, rows):
        return cross_entropy_sum(self, weights, batch, step, rows)

    def settings(self):
        rope = {f"model.rope.{name}": str(value) for name, value in dataclasses.asdict(self.rope).items()}
        return {
            "data.seq_length": str(T),
            "model.kind": "llama",
            "model.attention_bias": self.attention_bias,
            "model.ffn_hidden_size": str(F),
            "model.head_dim": str(D),
            "model.head_norm": "true" if self.head_norm else "false",
            "model.hidden_size": str(C),
            "model.layer_norm_epsilon": repr(NORM_EPSILON),
            "model.max_position_embeddings": str(P),
            "model.mlp_bias": "true" if self.bias else "false",
            "model.num_attention_heads": str(self.groups * self.of_group),
            "model.num_key_value_heads": str(self.groups),
            "model.num_layers": str(LAYERS),
            "model.tied_head": "true" if self.tied else "false",
            "model.vocab_size": str(V),
        } | rope


def norm(x, weights, name):
    gain = weights[f"{name}.gain"]
    return functional.rms_norm(x, gain.shape, gain, NORM_EPSILON)


def product(x, weights, name, inner_dims):
    weight = weights[f"{name}.weight"]
    matrix = weight.reshape(math.prod(weight.shape[:inner_dims]), -1)
    bias = weights.get(f"{name}.bias")
    return functional.linear(x, matrix.t(), None if bias is None else bias.reshape(-1))
