# SPDX-License-Identifier: Apache-2.0
"""A decoder-only transformer, small enough for a test machine, that really computes.

The weights are random, so the text is nonsense; the work is not: embedding, attention over a key-value cache, a
feed-forward part, sampling. One call serves a prefill (one sequence, many positions) and a decode step (many sequences,
one position) alike.
"""
import torch
from torch import nn

VOCABULARY = 512
END_OF_TEXT = VOCABULARY - 1
LAYERS = 2
HEADS = 4
WIDTH = 64


def encode(text):
    """Tokens of a text: its bytes. The first half of the vocabulary is theirs."""
    return list(text.encode()) or [ord(" ")]


def decode(token):
    """Text of a generated token: a syllable of two letters, or nothing for the end of the text."""
    if token == END_OF_TEXT:
        return ""
    return "bdfghklmnprstvwz"[token // 5 % 16] + "aeiou"[token % 5] + (" " if token % 3 == 0 else "")


def _attend(query, keys, values, hidden):
    """One query for each sequence is a sum over its keys. torch's CPU products of many small matrices would record a
    dozen operators for each of them."""
    if query.shape[1] == 1:
        scores = (query * keys).sum(-1).masked_fill(hidden.transpose(1, 2), float("-inf"))
        return (torch.softmax(scores, 1)[..., None] * values).sum(1)
    scores = query.transpose(1, 2) @ keys.permute(0, 2, 3, 1)
    weights = torch.softmax(scores.masked_fill(hidden[:, None], float("-inf")), -1)
    return (weights @ values.permute(0, 2, 1, 3)).transpose(1, 2)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_in = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm_mlp = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, cache, slots, positions, hidden):
        batch, length = positions.shape
        query, key, value = self.qkv(self.norm_in(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).unbind(2)
        cache[0][slots[:, None], positions] = key
        cache[1][slots[:, None], positions] = value
        keys, values = cache[:, slots, : hidden.shape[-1]]
        mixed = _attend(query / (WIDTH // HEADS) ** 0.5, keys, values, hidden).reshape(batch, length, WIDTH)
        x = x + self.out(mixed)
        return x + self.down(torch.relu(self.up(self.norm_mlp(x))))


class Transformer(nn.Module):
    """Holds the weights and the key-value cache: `max_seqs` slots of `context` positions."""

    def __init__(self, max_seqs, context, device):
        super().__init__()
        torch.manual_seed(7)
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(context, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("cache", torch.zeros(LAYERS, 2, max_seqs, context, HEADS, WIDTH // HEADS))
        self.device = device
        self.to(device)
        self.eval()

    @torch.inference_mode()
    def forward(self, slots, starts, tokens, temperatures):
        """The next token of each sequence. `tokens` is one list for each slot, all of one length, which take the
        positions from `starts` on."""
        length = len(tokens[0])
        slots = torch.tensor(slots, device=self.device)
        positions = torch.tensor(starts, device=self.device)[:, None] + torch.arange(length, device=self.device)
        seen = torch.arange(max(starts) + length, device=self.device)
        hidden = seen[None, None, :] > positions[:, :, None]
        x = self.tokens(torch.tensor(tokens, device=self.device)) + self.places(positions)
        for block, cache in zip(self.blocks, self.cache):
            x = block(x, cache, slots, positions, hidden)
        logits = self.head(self.norm(x[:, -1]))
        heat = torch.tensor(temperatures, device=self.device).clamp(min=1e-3)
        return torch.multinomial(torch.softmax(logits / heat[:, None], -1), 1).flatten().tolist()
