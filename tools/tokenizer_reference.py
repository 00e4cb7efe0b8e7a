#!/usr/bin/env python3
"""Encodes texts as GPT-2 and llama2.c do, slowly and plainly: where the encodings of tests/data/tokenizer_test.cpp are from.

    tokenizer_reference.py gpt2 FOLDER < text     # a folder with encoder.json and vocab.bpe; needs `pip install regex`
    tokenizer_reference.py llama tokenizer.bin < text
"""
import json
import struct
import sys


def gpt2(folder, text):
    import regex

    ids = json.load(open(folder + "/encoder.json", encoding="utf-8"))
    lines = open(folder + "/vocab.bpe", encoding="utf-8").read().split("\n")[1:-1]
    ranks = {tuple(line.split()): rank for rank, line in enumerate(lines)}
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in kept]
    letter = {byte: chr(byte) for byte in kept} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    pattern = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    out = []
    for word in regex.findall(pattern, text.decode("utf-8")):
        pieces = [letter[byte] for byte in word.encode("utf-8")]
        while True:
            pairs = set(zip(pieces, pieces[1:])) & ranks.keys()
            if not pairs:
                break
            best = min(pairs, key=ranks.get)
            merged, i = [], 0
            while i < len(pieces):
                both = tuple(pieces[i : i + 2]) == best
                merged.append("".join(best) if both else pieces[i])
                i += 2 if both else 1
            pieces = merged
        out += [ids[piece] for piece in pieces]
    return out


def llama(path, text):
    content, at, pieces = open(path, "rb").read(), 4, []
    while at < len(content):
        score, length = struct.unpack_from("<fi", content, at)
        pieces.append((content[at + 8 : at + 8 + length], score))
        at += 8 + length
    ids = {piece: id for id, (piece, _) in enumerate(pieces)}
    out = []
    for character in " " + text.decode("utf-8") if text else "":
        piece = character.encode("utf-8")
        out += [ids[piece]] if piece in ids else [byte + 3 for byte in piece]
    while True:
        best, where = None, None
        for i in range(len(out) - 1):
            id = ids.get(pieces[out[i]][0] + pieces[out[i + 1]][0])
            if id is not None and (best is None or pieces[id][1] > pieces[best][1]):
                best, where = id, i
        if best is None:
            return out
        out[where : where + 2] = [best]


if __name__ == "__main__":
    print({"gpt2": gpt2, "llama": llama}[sys.argv[1]](sys.argv[2], sys.stdin.buffer.read()))
