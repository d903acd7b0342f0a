#!/usr/bin/python3
"""A program that works alone, then in threads that it waits for, and so on.

    fork_join.py [--rounds N] [--threads N] [--alone BLOCKS] [--each BLOCKS]

A round holds BLOCKS of 100,000 bytes alone and gives them back; then each thread holds BLOCKS of its
own, five times. Memory that the one phase gave back could serve the other in every interleaving.
"""

import argparse
import threading


def hold(blocks, times):
    for _ in range(times):
        held = [bytes(100_000) for _ in range(blocks)]
    return len(held)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--alone", type=int, default=60)
    parser.add_argument("--each", type=int, default=40)
    options = parser.parse_args()
    total = 0
    for _ in range(options.rounds):
        total += hold(options.alone, 1)
        threads = [threading.Thread(target=hold, args=(options.each, 5))
                   for _ in range(options.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print(total)


if __name__ == "__main__":
    main()
