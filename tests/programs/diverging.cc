// diverging SEED THREADS ROUNDS [LIKE]: threads allocate, reallocate, hand each other blocks and
// free them, as a pseudo-random sequence says. Recorded with one seed and replayed with another it
// departs from its plan in every way there is. With LIKE, the sequence is that of seed LIKE but for
// one step in fifty, so that replay follows its plan for a while. Every block holds a pattern of
// its own, which is verified before the block changes hands or is freed.
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>

namespace {

struct Random {
  uint64_t state;
  uint64_t Next() {
    state += 0x9e3779b97f4a7c15;
    uint64_t x = state;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
};

struct Held {
  unsigned char* bytes;
  size_t size;
  unsigned char pattern;
};

constexpr int kOwn = 200;    // blocks a thread holds
constexpr int kShared = 64;  // places where threads leave blocks for each other
std::atomic<Held*> shared_place[kShared];
std::atomic<uint64_t> broken;

struct Job {
  uint64_t seed;
  uint64_t like;
  uint64_t rounds;
  uint64_t number;
};

void Verify(const Held& held) {
  for (size_t i = 0; i < held.size; ++i) {
    if (held.bytes[i] != held.pattern) {
      broken.fetch_add(1);
      return;
    }
  }
}

void Fill(Held& held) {
  memset(held.bytes, held.pattern, held.size);
  if (malloc_usable_size(held.bytes) < held.size) broken.fetch_add(1);
}

void Drop(Held& held) {
  if (held.bytes == nullptr) return;
  Verify(held);
  free(held.bytes);
  held.bytes = nullptr;
}

size_t SizeOf(uint64_t choice) {
  const uint64_t kind = choice % 100;
  if (kind < 70) return 1 + choice / 100 % 200;
  if (kind < 97) return 1 + choice / 100 % 5000;
  return 1 + choice / 100 % 300000;
}

// Several call sites, so that a plan has several kinds of requests.
__attribute__((noinline)) void* Small(size_t size) { return malloc(size); }
__attribute__((noinline)) void* Other(size_t size) { return malloc(size); }

void Get(Held& held, uint64_t choice) {
  const size_t size = SizeOf(choice >> 8);
  void* got = nullptr;
  switch (choice % 8) {
    case 0:
      got = calloc(1, size);
      for (size_t i = 0; i < size; ++i) {
        if (static_cast<unsigned char*>(got)[i] != 0) {
          broken.fetch_add(1);
          break;
        }
      }
      break;
    case 1:
      got = aligned_alloc(size_t{16} << (choice >> 4) % 7, size);
      if (reinterpret_cast<uintptr_t>(got) % (size_t{16} << (choice >> 4) % 7) != 0) {
        broken.fetch_add(1);
      }
      break;
    case 2:
    case 3:
      got = Other(size);
      break;
    default:
      got = Small(size);
  }
  held = {static_cast<unsigned char*>(got), size, static_cast<unsigned char>(choice >> 20)};
  Fill(held);
}

void Regrow(Held& held, uint64_t choice) {
  Verify(held);
  const size_t size = SizeOf(choice);
  auto* bytes = static_cast<unsigned char*>(realloc(held.bytes, size));
  const size_t kept = size < held.size ? size : held.size;
  held = {bytes, kept, held.pattern};
  Verify(held);
  held.size = size;
  Fill(held);
}

void* Run(void* argument) {
  const Job& job = *static_cast<Job*>(argument);
  Random mine{job.seed * 1000 + job.number};
  Random like{(job.like != 0 ? job.like : job.seed) * 1000 + job.number};
  static __thread Held own[kOwn];
  for (uint64_t round = 0; round < job.rounds; ++round) {
    const uint64_t strange = mine.Next();
    const uint64_t usual = like.Next();
    const uint64_t step = job.like == 0 || strange % 50 == 0 ? strange : usual;
    Held& held = own[step / 16 % kOwn];
    if (held.bytes == nullptr) {
      Get(held, step >> 16);
    } else if (step % 16 < 3) {
      Regrow(held, step >> 16);
    } else if (step % 16 < 6) {
      // Leave it to whoever comes, and free what somebody left.
      auto* letter = static_cast<Held*>(malloc(sizeof(Held)));
      *letter = held;
      held.bytes = nullptr;
      Held* found = shared_place[(step >> 20) % kShared].exchange(letter);
      if (found != nullptr) {
        Drop(*found);
        free(found);
      }
    } else {
      Drop(held);
    }
  }
  for (Held& held : own) {
    if (&held - own < kOwn / 2) Drop(held);  // the rest outlives the thread
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const uint64_t threads = strtoull(argv[2], nullptr, 10);
  const uint64_t rounds = strtoull(argv[3], nullptr, 10);
  const uint64_t like = argc > 4 ? strtoull(argv[4], nullptr, 10) : 0;
  static Job jobs[64];
  pthread_t handles[64];
  // Two generations of threads, so that lanes are taken over and left.
  for (int generation = 0; generation < 2; ++generation) {
    for (uint64_t i = 0; i < threads; ++i) {
      jobs[i] = {strtoull(argv[1], nullptr, 10), like, rounds, i + 100 * generation};
      pthread_create(&handles[i], nullptr, Run, &jobs[i]);
    }
    Job own = {strtoull(argv[1], nullptr, 10), like, rounds, 50u + 100 * generation};
    Run(&own);
    for (uint64_t i = 0; i < threads; ++i) pthread_join(handles[i], nullptr);
  }
  for (auto& place : shared_place) {
    if (Held* found = place.exchange(nullptr)) {
      Drop(*found);
      free(found);
    }
  }
  printf("%s\n", broken.load() == 0 ? "every block kept its bytes" : "blocks were overwritten");
  return broken.load() == 0 ? 0 : 1;
}
