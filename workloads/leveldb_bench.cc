// leveldb_bench: LevelDB under fill random, read random and overwrite, with its background
// compaction thread at work. Standard output depends on the options alone, so that two runs can be
// compared byte for byte; timings go to standard error.
#include <leveldb/db.h>
#include <leveldb/write_batch.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"

ABSL_FLAG(int, threads, 1, "that work at the same time");
ABSL_FLAG(uint64_t, num, 100'000, "operations per thread and phase");
ABSL_FLAG(size_t, value_size, 100, "bytes");
ABSL_FLAG(uint64_t, seed, 301, "of keys and values");
ABSL_FLAG(std::string, db, "", "where the database goes: must not exist, removed at the end");

namespace {

struct Settings {
  int threads;
  uint64_t num;
  size_t value_size;
  uint64_t seed;
  std::string db;
};

// What a phase did. Sums commute, so the order in which threads finish does not show.
struct Tally {
  uint64_t operations = 0;
  uint64_t found = 0;
  uint64_t checksum = 0;

  Tally& operator+=(const Tally& other) {
    operations += other.operations;
    found += other.found;
    checksum += other.checksum;
    return *this;
  }
};

void Require(const leveldb::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "leveldb_bench: %s\n", status.ToString().c_str());
  std::_Exit(1);
}

uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 29);
}

uint64_t Checksum(const std::string& bytes) {
  uint64_t hash = bytes.size();
  for (const char byte : bytes) hash = Mix(hash, static_cast<unsigned char>(byte));
  return hash;
}

// Every thread has keys of its own: what a read finds never depends on who was faster.
std::string RandomKey(int thread, uint64_t num, std::mt19937_64& random) {
  char key[32];
  std::snprintf(key, sizeof(key), "%04d%012" PRIu64, thread, random() % num);
  return key;
}

// The second half repeats the first, so that compression has something to do.
std::string RandomValue(size_t size, std::mt19937_64& random) {
  std::string value(size, ' ');
  const size_t half = (size + 1) / 2;
  for (size_t i = 0; i < half; ++i) value[i] = static_cast<char>(' ' + random() % 95);
  for (size_t i = half; i < size; ++i) value[i] = value[i - half];
  return value;
}

Tally Write(leveldb::DB& db, const Settings& settings, int thread, uint64_t seed) {
  std::mt19937_64 random(seed);
  Tally tally;
  for (uint64_t i = 0; i < settings.num; ++i) {
    const std::string key = RandomKey(thread, settings.num, random);
    const std::string value = RandomValue(settings.value_size, random);
    Require(db.Put(leveldb::WriteOptions(), key, value));
    tally.checksum += Mix(Checksum(key), Checksum(value));
    ++tally.operations;
  }
  return tally;
}

Tally Read(leveldb::DB& db, const Settings& settings, int thread, uint64_t seed) {
  std::mt19937_64 random(seed);
  Tally tally;
  std::string value;
  for (uint64_t i = 0; i < settings.num; ++i) {
    const std::string key = RandomKey(thread, settings.num, random);
    const leveldb::Status status = db.Get(leveldb::ReadOptions(), key, &value);
    ++tally.operations;
    if (status.IsNotFound()) continue;
    Require(status);
    tally.checksum += Mix(Checksum(key), Checksum(value));
    ++tally.found;
  }
  return tally;
}

using Work = Tally (*)(leveldb::DB&, const Settings&, int thread, uint64_t seed);

void RunPhase(const char* name, uint64_t phase, Work work, leveldb::DB& db,
              const Settings& settings) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<Tally> tallies(settings.threads);
  const auto run = [&](int thread) {
    tallies[thread] = work(db, settings, thread, Mix(Mix(settings.seed, phase), thread));
  };
  {
    std::vector<std::jthread> others;
    for (int thread = 1; thread < settings.threads; ++thread) others.emplace_back(run, thread);
    run(0);
  }
  Tally sum;
  for (const Tally& tally : tallies) sum += tally;
  std::printf("%-11s operations %" PRIu64 " found %" PRIu64 " checksum %016" PRIx64 "\n", name,
              sum.operations, sum.found, sum.checksum);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::fprintf(stderr, "%-11s %.3f s, %.2f us per operation\n", name, seconds.count(),
               1e6 * seconds.count() / static_cast<double>(sum.operations));
}

std::string MakeTemporaryDirectory() {
  const char* parent = getenv("TMPDIR");
  std::string path = std::string(parent != nullptr ? parent : "/tmp") + "/leveldb_bench.XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    std::perror(("leveldb_bench: " + path).c_str());
    std::_Exit(1);
  }
  return path;
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("LevelDB: fill random, read random, overwrite, read random");
  absl::ParseCommandLine(argc, argv);
  Settings settings = {.threads = absl::GetFlag(FLAGS_threads),
                       .num = absl::GetFlag(FLAGS_num),
                       .value_size = absl::GetFlag(FLAGS_value_size),
                       .seed = absl::GetFlag(FLAGS_seed),
                       .db = absl::GetFlag(FLAGS_db)};
  if (settings.threads < 1 || settings.num < 1 || settings.value_size > 1 << 24) {
    std::fprintf(stderr, "leveldb_bench: expected threads and num above 0, values up to 16 MiB\n");
    return 2;
  }

  const bool temporary = settings.db.empty();
  if (temporary) settings.db = MakeTemporaryDirectory();

  leveldb::Options options;
  options.create_if_missing = true;
  options.error_if_exists = true;
  options.write_buffer_size = 1 << 20;  // small, so that the compaction thread has work
  leveldb::DB* opened = nullptr;
  Require(leveldb::DB::Open(options, settings.db, &opened));
  {
    const std::unique_ptr<leveldb::DB> db(opened);
    RunPhase("fill_random", 1, Write, *db, settings);
    RunPhase("read_random", 2, Read, *db, settings);
    RunPhase("overwrite", 3, Write, *db, settings);
    RunPhase("read_random", 4, Read, *db, settings);
  }
  Require(leveldb::DestroyDB(settings.db, options));
  return 0;
}
