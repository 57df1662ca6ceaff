#!/usr/bin/env python3
"""The training step of a GPT in PyTorch, as a peer for scripts/bench-cpu, bench-gpu and bench-ranks: forward, backward, clipping,
AdamW.

In fp32, or with --bf16 in PyTorch's own mixed precision: weights and moments in fp32, products by autocast in bf16; with
--pure-bf16 weights and moments are bf16 too, which learns less, and shows what PyTorch's time is without fp32 state.

The model is that of configs/gpt-shakespeare-char.yaml and configs/gpt2-124m.yaml: learned positions, blocks with layer norm
first, GELU (tanh), scaled_dot_product_attention, head tied to the token embedding; with --groups a Llama (torch_llama.py). Tokens
are random.

The process warms up, prints {"ready": true, "loss": ..., ...}, where the loss is that of its first step, and then answers each
line "N" on standard input with the times of N steps, {"step_s": [...], "peak_bytes": ...}; so that peers alternate without
starting anew. It ends with its input. Peak memory is that of the process, or on a GPU of what PyTorch allocated there; between
its rounds it gives back what it does not hold.

With --ranks N it starts N - 1 more processes, which share out the batch and talk by gloo: by DistributedDataParallel, or with
--shard by fully_shard (FSDP2) of each block and of the whole. Times are those of the first one; peak memory is the sum.
"""
import argparse
import json
import math
import os
import resource
import socket
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from torch_llama import Llama


class Block(nn.Module):
    def __init__(self, hidden, heads, bias):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden, bias=bias), nn.LayerNorm(hidden, bias=bias)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden, bias=bias), nn.Linear(hidden, hidden, bias=bias)
        self.up, self.down = nn.Linear(hidden, 4 * hidden, bias=bias), nn.Linear(4 * hidden, hidden, bias=bias)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (part.view(B, T, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(C, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(a.vocab, a.hidden), nn.Embedding(a.length, a.hidden)
        self.blocks = nn.ModuleList(Block(a.hidden, a.heads, bool(a.bias)) for _ in range(a.layers))
        self.norm = nn.LayerNorm(a.hidden, bias=bool(a.bias))
        self.recompute = a.recompute
        for name, p in self.named_parameters():
            if p.dim() == 2:
                deep = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, 0.0, 0.02 / math.sqrt(2 * a.layers) if deep else 0.02)

    def forward(self, tokens, labels):
        x = self.tokens(tokens) + self.positions.weight[: tokens.size(1)]
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return self.loss_of(x, labels)

    def loss_of(self, x, labels):
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))


def compile_parts(model, mode):
    """Blocks share one compiled function, the loss has another: seconds where the whole of a deep model takes minutes."""
    for block in model.blocks:
        block.compile(mode=mode)
    model.loss_of = torch.compile(model.loss_of, mode=mode)


def choose_attention(a):
    """Leaves scaled_dot_product_attention the fastest of its fused kernels for these shapes alone; its name."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    shape = (a.batch, a.heads, a.length, a.hidden // a.heads)
    q, k, v = (torch.randn(shape, device=a.device, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    switches = {
        SDPBackend.FLASH_ATTENTION: torch.backends.cuda.enable_flash_sdp,
        SDPBackend.CUDNN_ATTENTION: torch.backends.cuda.enable_cudnn_sdp,
        SDPBackend.EFFICIENT_ATTENTION: torch.backends.cuda.enable_mem_efficient_sdp,
    }
    times = {}
    for backend in switches:
        clock = Clock(a.device)
        try:
            with sdpa_kernel(backend):
                for turn in range(13):
                    if turn >= 3:
                        clock.mark()
                    F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
                    if turn >= 3:
                        clock.mark()
        except RuntimeError:  # this one has no kernel for the shape or the device
            continue
        times[backend] = statistics.median(clock.step_s())
    if not times:
        return "default"
    best = min(times, key=times.get)
    for backend, switch in switches.items():
        switch(backend == best)
    return best.name.lower()


class Clock:
    """Times of steps: of the process on a CPU, between events on a GPU, where steps are enqueued ahead."""

    def __init__(self, device):
        self.is_cuda = device == "cuda"
        self.marks = []

    def mark(self):
        if self.is_cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
        self.marks.append(event if self.is_cuda else time.perf_counter())

    def step_s(self):
        """The time between each mark and the next, by pairs; forgets them."""
        if self.is_cuda:
            torch.cuda.synchronize()
        pairs = zip(self.marks[::2], self.marks[1::2])
        times = [1e-3 * a.elapsed_time(b) if self.is_cuda else b - a for a, b in pairs]
        self.marks = []
        return times


class Ranks:
    """The processes of --ranks: the first one starts the others, and tells them how many steps come next. One alone is none."""

    def __init__(self, count):
        self.count, self.others = count, []
        if count == 1:
            return
        if "RANK" not in os.environ:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": str(count)}
            os.environ.update(place, RANK="0")
            for rank in range(1, count):
                environment = {**os.environ, "RANK": str(rank)}
                self.others.append(subprocess.Popen([sys.executable, *sys.argv], env=environment, stdin=subprocess.DEVNULL))
        dist.init_process_group("gloo")

    def is_first(self):
        return os.environ.get("RANK", "0") == "0"

    def share(self, module, shards):
        """The module as all of them train it."""
        if self.count == 1:
            return module
        if not shards:
            return nn.parallel.DistributedDataParallel(module)
        from torch.distributed.fsdp import fully_shard

        for block in module.blocks:
            fully_shard(block)
        return fully_shard(module)

    def tell(self, steps):
        """On the first one: all do so many steps next; 0: they end. On others: how many that is."""
        if self.count == 1:
            return steps
        number = torch.tensor([steps])
        dist.broadcast(number, 0)
        return int(number)

    def sum(self, number):
        if self.count == 1:
            return number
        total = torch.tensor([number])
        dist.all_reduce(total)
        return int(total)

    def end(self):
        if self.count > 1:
            self.tell(0)
            dist.destroy_process_group()
        for process in self.others:
            process.wait()


def own_peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("layers", "heads", "hidden", "vocab", "length", "batch"):
        p.add_argument("--" + name, type=int, required=True)
    p.add_argument("--bias", type=int, default=1)
    p.add_argument("--groups", type=int, help="of heads that share keys and values: a Llama, with --ffn and --theta")
    p.add_argument("--ffn", type=int)
    p.add_argument("--theta", type=float, help="of its rotary positions")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--warmup", type=int, default=2)
    p.add_argument("--compile", action="store_true", help="torch.compile")
    p.add_argument("--compile-blocks", action="store_true", help="torch.compile of each block and of the loss")
    p.add_argument("--mode", default="default", help="of torch.compile: max-autotune takes minutes")
    p.add_argument("--recompute", action="store_true", help="checkpoint each block")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--bf16", action="store_true", help="autocast to bf16; otherwise fp32, on a GPU without tf32")
    p.add_argument("--pure-bf16", action="store_true", help="weights, moments and all else in bf16")
    p.add_argument("--ranks", type=int, default=1, help="processes on this host, which divide the batch")
    p.add_argument("--shard", action="store_true", help="with --ranks: fully_shard in place of DistributedDataParallel")
    a = p.parse_args()
    if a.batch % a.ranks != 0:
        p.error(f"a batch of {a.batch} is not shared out among {a.ranks} ranks")
    ranks = Ranks(a.ranks)
    a.batch //= a.ranks
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    has_bf16 = a.bf16 or a.pure_bf16
    attention = choose_attention(a) if a.device == "cuda" and has_bf16 else "default"
    model = (Llama if a.groups else GPT)(a).to(a.device, torch.bfloat16 if a.pure_bf16 else torch.float32)
    parameters = sum(p.numel() for p in model.parameters())
    shared = ranks.share(model, a.shard)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    # fused is PyTorch's fastest AdamW, on either device.
    optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), fused=True)
    run = torch.compile(shared, mode=a.mode) if a.compile else shared
    if a.compile_blocks:
        compile_parts(model, a.mode)

    clock = Clock(a.device)

    def step():
        window = torch.randint(a.vocab, (a.batch, a.length + 1), device=a.device)
        clock.mark()
        with torch.autocast(a.device, torch.bfloat16, enabled=a.bf16):
            loss = run(window[:, :-1], window[:, 1:].contiguous())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        clock.mark()
        return loss

    first_loss = float(step())
    for _ in range(a.warmup - 1):
        step()
    clock.step_s()
    if not ranks.is_first():
        while steps := ranks.tell(0):
            for _ in range(steps):
                step()
            ranks.sum(own_peak_bytes())
        return
    facts = {"torch": torch.__version__, "parameters": parameters, "attention": attention, "loss": first_loss}
    print(json.dumps({"ready": True, **facts}), flush=True)
    for line in sys.stdin:
        for _ in range(ranks.tell(int(line))):
            step()
        times = clock.step_s()
        if a.device == "cuda":
            peak = torch.cuda.max_memory_allocated()
            torch.cuda.empty_cache()  # the GPU is another's until the next round
        else:
            peak = ranks.sum(own_peak_bytes())
        print(json.dumps({"step_s": times, "peak_bytes": peak}), flush=True)
    ranks.end()


if __name__ == "__main__":
    main()
