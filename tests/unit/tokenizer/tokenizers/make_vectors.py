#!/usr/bin/env python3
"""Makes the models and vectors of this folder with the peers: sentencepiece and tokenizers of Python.

Usage: make_vectors.py, in this folder, with both packages installed. What is committed here was made by
sentencepiece 0.2.3 and tokenizers 0.23.3.
"""
import io
import json
import random
import tempfile

import sentencepiece
import tokenizers

WORDS = ("the quick brown fox jumps over lazy dogs while nobody's watching it'll they've don't stop 1234 567 "
         "na\u00efve caf\u00e9 \u00fcber stra\u00dfe \u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440 "
         "\u4f60\u597d\u4e16\u754c \u3053\u3093\u306b\u3061\u306f reading writing learner learning learned "
         "\u2014 -- ... ,,, under_score http://example.org/a?b=c").split()
TEXTS = [
    "", " ", "   ", "\n", "Hello world", " Hello world", "Hello  world ", "the fox\njumps\n\nover\t\tit  ",
    "they've don't it'll 'tis nobody's'", "caf\u00e9 na\u00efve stra\u00dfe \u00fcber",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u4f60\u597d\u4e16\u754c\u3002 \U0001f600\U0001f468\u200d\U0001f469",
    "A\u00a0B\u2003C\u3000D", "x\u0300 e\u0301 \ufb01 \u00bd \uff21", "1234567 12 3", "   leading and trailing   ",
    "\u2581 literal \u2581\u2581 sign \u2581", "a\r\nb\rc", "\u0000 zero \u0007 bell", "--------...,,,,!!!!", "learned-learning learner",
]


def lines():
    rng = random.Random(1)
    return [" ".join(rng.choice(WORDS) for _ in range(rng.randint(3, 12))) for _ in range(400)]


def sentencepiece_model(name, **settings):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines()), model_writer=model, num_threads=1, minloglevel=2, **settings)
    with open(f"{name}.model", "wb") as file:
        file.write(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    rows = [{"text": text, "ids": processor.encode(text)} for text in TEXTS]
    rng = random.Random(2)
    for _ in range(30):
        text = "".join(rng.choice([" ", "  ", "", "\n"]) + rng.choice(WORDS) for _ in range(rng.randint(1, 9)))
        rows.append({"text": text, "ids": processor.encode(text)})
    return rows


def byte_pair_files():
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(lines(), vocab_size=400, special_tokens=["<|endoftext|>"], show_progress=False)
    tokenizer.save_model(".")
    rows = [{"text": text, "ids": tokenizer.encode(text).ids} for text in TEXTS]
    rng = random.Random(3)
    for _ in range(30):
        text = "".join(rng.choice([" ", "  ", "", "\n", "\t "]) + rng.choice(WORDS) for _ in range(rng.randint(1, 9)))
        rows.append({"text": text, "ids": tokenizer.encode(text).ids})
    return rows


def main():
    identity = {"normalization_rule_name": "identity"}
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", delete=False) as file:  # code points and what they become
        file.write("41\t61\nA0\t20\n200B\t\nFB01\t66 69\n65 301\tE9\n")
    vectors = {
        "lossless": sentencepiece_model(
            "lossless", model_type="bpe", vocab_size=480, byte_fallback=True, remove_extra_whitespaces=False,
            add_dummy_prefix=False, split_digits=True, allow_whitespace_only_pieces=True, hard_vocab_limit=False,
            unk_id=0, eos_id=1, bos_id=-1, pad_id=-1, **identity),
        "prefix": sentencepiece_model(
            "prefix", model_type="bpe", vocab_size=480, byte_fallback=True, remove_extra_whitespaces=False,
            user_defined_symbols=["under_score", "<sep>"], hard_vocab_limit=False, **identity),
        "collapsing": sentencepiece_model("collapsing", model_type="bpe", vocab_size=200, **identity),
        "unigram": sentencepiece_model("unigram", model_type="unigram", vocab_size=160, hard_vocab_limit=False, **identity),
        "rules": sentencepiece_model("rules", model_type="bpe", vocab_size=200, normalization_rule_tsv=file.name),
        "suffix": sentencepiece_model(
            "suffix", model_type="bpe", vocab_size=200, treat_whitespace_as_suffix=True, **identity),
        "word": sentencepiece_model("word", model_type="word", vocab_size=30, **identity),
        "gpt2": byte_pair_files(),
    }
    with open("vectors.json", "w", encoding="ascii") as file:
        tables = (f'"{name}": [\n' + ",\n".join(map(json.dumps, rows)) + "]" for name, rows in vectors.items())
        file.write("{\n" + ",\n".join(tables) + "\n}\n")


main()
