"""Run as: python3 python_script.py [ROUNDS]

Dictionaries, strings, regular expressions, JSON, big integers, classes and garbage cycles. The output
depends on ROUNDS alone.
"""

import collections
import json
import re
import sys
import zlib


class Node:
    """A link of a ring: only the cycle collector can free it."""

    def __init__(self, value):
        self.value = value
        self.next = self


def make_ring(length):
    first = Node(0)
    last = first
    for value in range(1, length):
        last.next = Node(value)
        last = last.next
    last.next = first
    return first


def words(count, seed):
    state = seed
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield "word%d" % (state >> 52)


def one_round(number):
    counts = collections.Counter(words(5000, number + 1))
    text = json.dumps(sorted(counts.items()))
    matches = re.findall(r'"(word\d*7\d*)", (\d+)', text)
    rings = [make_ring(length) for length in range(1, 60)]
    power = pow(number + 3, 2000)
    packed = zlib.compress(text.encode(), 6)
    total = sum(int(count) for _, count in matches) + sum(ring.next.value for ring in rings)
    return zlib.crc32(zlib.decompress(packed)), len(counts), total, power.bit_length()


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    for number in range(rounds):
        print(*one_round(number))


if __name__ == "__main__":
    main()
