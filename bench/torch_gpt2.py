"""The GPT-2 of engine_bench.c in PyTorch (Debian: python3-torch): 6 layers, width 384, 6 heads, 256 tokens
a sequence, 8 sequences a rank, vocabulary 512, tied, fp32, AdamW, clipped. Prints tokens a second of
the best step. With 2 ranks: two processes of one thread each, DistributedDataParallel over gloo.

Usage: torch_gpt2.py RANKS STEPS
"""
import math
import os
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

LAYERS, HEADS, WIDTH, SEQ, SEQUENCES, VOCAB = 6, 6, 384, 256, 8, 512


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, mask):
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, HEADS, -1).transpose(1, 2)
                   for y in self.qkv(self.norm1(x)).split(WIDTH, 2))
        a = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS) + mask, -1) @ v
        x = x + self.out(a.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(SEQ, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.mask = torch.full((SEQ, SEQ), float("-inf")).triu(1)

    def forward(self, tokens, targets):
        x = self.words(tokens) + self.places.weight
        for block in self.blocks:
            x = block(x, self.mask)
        logits = self.norm(x) @ self.words.weight.T
        return F.cross_entropy(logits.reshape(-1, VOCAB), targets.reshape(-1))


def run(model, steps):
    update = torch.optim.AdamW(model.parameters(), 1e-3)
    text, best = torch.randint(VOCAB, (SEQUENCES, SEQ + 1)), math.inf
    for _ in range(steps):
        begun = time.time()
        loss = model(text[:, :-1], text[:, 1:])
        update.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        update.step()
        best = min(best, time.time() - begun)
    return best


def rank_of_two(rank, ranks, steps):
    import torch.distributed as dist
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("BENCH_PORT", "29511"))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    best = run(nn.parallel.DistributedDataParallel(Model()), steps)
    if rank == 0:
        print(f"{ranks * SEQUENCES * SEQ / best:.0f}")


if __name__ == "__main__":
    count, wanted = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    if count == 1:
        print(f"{SEQUENCES * SEQ / run(Model(), wanted):.0f}")
    else:
        torch.multiprocessing.spawn(rank_of_two, (count, wanted), nprocs=count)
