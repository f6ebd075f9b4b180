"""Golden vectors of one training step, made with PyTorch (Debian: python3-torch), for
tests/engine_golden_test.c.

A GPT-2 (tied) and a Llama (untied, grouped queries) of two layers, their weights drawn as the engine
draws them (src/engine/random.h, units.c). A file is a row of records: name (48 bytes), count (int32),
numbers (float32): the tokens' logits, the loss, each tensor's gradient ("d " name), and each tensor
after one step of SGD ("s " name) and of AdamW ("a " name). fp64 inside, rounded once at the end.

Usage: make_vectors.py FOLDER
"""
import math
import struct
import sys

import torch

MASK = (1 << 64) - 1
ROLES = {name: i for i, name in enumerate(
    "norms attention.q attention.k attention.v attention.q.bias attention.k.bias attention.v.bias "
    "attention.o attention.o.bias mlp.gate mlp.up mlp.up.bias mlp.down mlp.down.bias embedding "
    "positions final_norm head".split())}
SEED, DEVIATION, SEQ, BATCH, VOCAB, HIDDEN, LAYERS, HEADS = 1, 0.2, 16, 2, 40, 16, 2, 4
RMS_EPSILON, ROPE_THETA = 1e-3, 500.0 # of the Llama: not what is taken when they are left out


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def rand(seed, stream, index):
    return mix(mix(mix(seed) ^ stream) ^ index)


def normal(stream, index):
    bits = rand(SEED, stream, index)
    u = ((bits >> 32) + 0.5) * 2.0 ** -32
    v = (bits & 0xFFFFFFFF) * 2.0 ** -32
    return math.sqrt(-2 * math.log(u)) * math.cos(6.283185307179586 * v)


def matrix(layer, name, rows, columns):
    key = (layer + 1) * len(ROLES) + ROLES[name]
    deviation = DEVIATION
    if name in ("attention.o", "mlp.down"):
        deviation /= math.sqrt(2.0 * LAYERS)
    flat = [deviation * normal(key, i) for i in range(rows * columns)]
    return torch.tensor(flat, dtype=torch.float32).double().reshape(rows, columns)


def token(sequence, position):
    return rand(9, sequence, position) % VOCAB


class Model:
    def __init__(self, llama):
        self.llama, self.p = llama, {}
        kv = HIDDEN // 2 if llama else HIDDEN
        inner = 24 if llama else 4 * HIDDEN
        norm = lambda n: torch.cat([torch.ones(HIDDEN)] * n if llama else
                                   [torch.ones(HIDDEN), torch.zeros(HIDDEN)] * n).double()
        self.p["embedding"] = matrix(-1, "embedding", VOCAB, HIDDEN)
        if not llama:
            self.p["positions"] = matrix(-1, "positions", SEQ, HIDDEN)
        for layer in range(LAYERS):
            put = lambda name, tensor: self.p.__setitem__(f"{layer}.{name}", tensor)
            put("norms", norm(2))
            for name, rows in (("q", HIDDEN), ("k", kv), ("v", kv)):
                put(f"attention.{name}", matrix(layer, f"attention.{name}", rows, HIDDEN))
                if not llama:
                    put(f"attention.{name}.bias", torch.zeros(rows).double())
            put("attention.o", matrix(layer, "attention.o", HIDDEN, HIDDEN))
            put("mlp.up", matrix(layer, "mlp.up", inner, HIDDEN))
            put("mlp.down", matrix(layer, "mlp.down", HIDDEN, inner))
            if llama:
                put("mlp.gate", matrix(layer, "mlp.gate", inner, HIDDEN))
            else:
                put("attention.o.bias", torch.zeros(HIDDEN).double())
                put("mlp.up.bias", torch.zeros(inner).double())
                put("mlp.down.bias", torch.zeros(HIDDEN).double())
        self.p["final_norm"] = norm(1)
        if llama:
            self.p["head"] = matrix(-1, "head", VOCAB, HIDDEN)

    def norm(self, x, w):
        if self.llama:
            return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + RMS_EPSILON) * w
        return torch.nn.functional.layer_norm(x, (HIDDEN,), w[:HIDDEN], w[HIDDEN:], 1e-5)

    def rope(self, x):
        half = x.shape[-1] // 2
        angle = torch.arange(SEQ).double()[:, None] * ROPE_THETA ** (-torch.arange(half).double() / half)
        a, b, c, s = x[..., :half], x[..., half:], angle.cos(), angle.sin()
        return torch.cat([a * c - b * s, b * c + a * s], -1)

    def linear(self, x, name):
        y = x @ self.p[name].T
        return y + self.p[name + ".bias"] if name + ".bias" in self.p else y

    def forward(self, tokens):
        x = self.p["embedding"][tokens]
        if not self.llama:
            x = x + self.p["positions"]
        size = HIDDEN if self.llama else 2 * HIDDEN
        heads = lambda y: y.reshape(BATCH, SEQ, -1, HIDDEN // HEADS).transpose(1, 2)
        mask = torch.full((SEQ, SEQ), float("-inf")).double().triu(1)
        for i in range(LAYERS):
            n = self.norm(x, self.p[f"{i}.norms"][:size])
            q, k, v = (heads(self.linear(n, f"{i}.attention.{w}")) for w in "qkv")
            if self.llama:
                q, k = self.rope(q), self.rope(k)
                k, v = (t.repeat_interleave(HEADS // t.shape[1], 1) for t in (k, v))
            a = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(HIDDEN // HEADS) + mask, -1) @ v
            x = x + self.linear(a.transpose(1, 2).reshape(BATCH, SEQ, HIDDEN), f"{i}.attention.o")
            n = self.norm(x, self.p[f"{i}.norms"][size:])
            up = self.linear(n, f"{i}.mlp.up")
            if self.llama:
                up = torch.nn.functional.silu(self.linear(n, f"{i}.mlp.gate")) * up
            else:
                up = torch.nn.functional.gelu(up, approximate="tanh")
            x = x + self.linear(up, f"{i}.mlp.down")
        return self.norm(x, self.p["final_norm"]) @ self.p["head" if self.llama else "embedding"].T


def write(file, name, tensor):
    numbers = tensor.detach().double().flatten().tolist()
    file.write(struct.pack("<48si", name.encode(), len(numbers)))
    file.write(struct.pack(f"<{len(numbers)}f", *numbers))


def step(llama, path):
    text = torch.tensor([[token(s, i) for i in range(SEQ + 1)] for s in range(BATCH)])
    with open(path, "wb") as file:
        for update in "sa":
            model = Model(llama)
            for p in model.p.values():
                p.requires_grad_(True)
            logits = model.forward(text[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), text[:, 1:].flatten())
            loss.backward()
            decays = [p for p in model.p.values() if p.dim() > 1]
            others = [p for p in model.p.values() if p.dim() == 1]
            groups = [{"params": decays, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
            if update == "s":
                write(file, "logits", logits)
                write(file, "loss", loss)
                for name, p in model.p.items():
                    write(file, "d " + name, p.grad)
                torch.optim.SGD(groups, lr=0.1).step()
            else:
                torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95), eps=1e-8).step()
            for name, p in model.p.items():
                write(file, update + " " + name, p)


step(False, sys.argv[1] + "/gpt2.bin")
step(True, sys.argv[1] + "/llama.bin")
