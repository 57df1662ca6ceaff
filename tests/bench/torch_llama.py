"""The Llama that torch_gpt.py trains where it is told of groups: that of configs/smollm2-135m.yaml, with RMS norms, rotary
positions, grouped heads (scaled_dot_product_attention), a gated MLP and the head tied to the token embedding. One product gives
queries, keys and values, and one both halves of the MLP, so that it is faster than the LlamaForCausalLM of the package transformers,
whose function it is.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

EPSILON = 1e-5


class Norm(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON) * self.weight


def turned(x, cos, sin):
    """Elements i and i + width / 2 are a pair."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.heads, self.groups, self.width = a.heads, a.groups, a.hidden // a.heads
        self.norm1, self.norm2 = Norm(a.hidden), Norm(a.hidden)
        self.qkv = nn.Linear(a.hidden, (a.heads + 2 * a.groups) * self.width, bias=False)
        self.out = nn.Linear(a.hidden, a.hidden, bias=False)
        self.up, self.down = nn.Linear(a.hidden, 2 * a.ffn, bias=False), nn.Linear(a.ffn, a.hidden, bias=False)

    def forward(self, x, cos, sin):
        B, T, C = x.shape
        qkv = self.qkv(self.norm1(x)).view(B, T, -1, self.width).transpose(1, 2)
        q, k, v = qkv.split((self.heads, self.groups, self.groups), dim=1)
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.groups)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        gate, other = self.up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * other)


class Llama(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.tokens, self.norm = nn.Embedding(a.vocab, a.hidden), Norm(a.hidden)
        self.blocks = nn.ModuleList(Block(a) for _ in range(a.layers))
        self.recompute = a.recompute
        width = a.hidden // a.heads
        angles = torch.outer(torch.arange(a.length), a.theta ** (-torch.arange(0, width, 2) / width))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        for name, p in self.named_parameters():
            if p.dim() == 2:
                deep = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, 0.0, 0.02 / math.sqrt(2 * a.layers) if deep else 0.02)

    def forward(self, tokens, labels):
        x = self.tokens(tokens)
        for block in self.blocks:
            of = (x, self.cos, self.sin)
            x = checkpoint(block, *of, use_reentrant=False) if self.recompute else block(*of)
        return self.loss_of(x, labels)

    def loss_of(self, x, labels):
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))
