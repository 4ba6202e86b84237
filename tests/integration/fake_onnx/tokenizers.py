# SPDX-License-Identifier: Apache-2.0
"""The package tokenizers as far as profd-onnx-worker calls it: a word is a token, its length is its number."""


class _Encoding:
    def __init__(self, ids):
        self.ids = ids


class Tokenizer:
    @classmethod
    def from_file(cls, path):
        assert path.endswith("tokenizer.json")
        return cls()

    def encode(self, text):
        return _Encoding([len(word) for word in text.split()])

    def decode(self, ids):
        return "".join(f" {id}" for id in ids)
