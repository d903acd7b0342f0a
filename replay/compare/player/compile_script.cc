#include "replay/compare/player/compile_script.h"

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "replay/compare/player/script.h"

namespace reprise::replay {
namespace {

using trace::Allocation;
using trace::kNever;
using trace::kNone;
using trace::Recording;

// What happens at one event: the birth or the death of an allocation, or nothing that is played.
struct Action {
  uint32_t allocation = kNone;
  bool death = false;
};

absl::Status Contradiction(size_t allocation, const char* what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the recording contradicts itself: allocation ", allocation, ": ", what));
}

absl::Status Validate(const Recording& recording) {
  const std::vector<Allocation>& allocations = recording.allocations;
  for (size_t i = 0; i < allocations.size(); ++i) {
    const Allocation& it = allocations[i];
    if (it.birth >= recording.events) return Contradiction(i, "born after the last event");
    if (it.thread >= recording.threads.size()) return Contradiction(i, "thread does not exist");
    if (it.size > INT64_MAX) return Contradiction(i, "size above 2^63");
    if (it.previous != kNone && it.previous >= i) return Contradiction(i, "replaces a later one");
    if (it.log2_alignment > 62) return Contradiction(i, "alignment above 2^62");
    if (it.death == kNever) continue;
    if (it.death <= it.birth) return Contradiction(i, "dies before its birth");
    if (it.death >= recording.events) return Contradiction(i, "dies after the last event");
    if (it.free_thread >= recording.threads.size()) {
      return Contradiction(i, "freeing thread does not exist");
    }
  }
  return absl::OkStatus();
}

absl::Status Validate(const Recording& recording, const Placement& placement) {
  const std::vector<Allocation>& allocations = recording.allocations;
  if (placement.offsets.size() != allocations.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan has ", placement.offsets.size(),
                                                   " offsets for ", allocations.size(),
                                                   " allocations"));
  }
  for (size_t i = 0; i < allocations.size(); ++i) {
    const int64_t offset = placement.offsets[i];
    if (offset == Placement::kUnplanned) continue;
    if (offset < 0 || static_cast<uint64_t>(offset) + allocations[i].size >
                          static_cast<uint64_t>(placement.arena_bytes)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the plan puts allocation ", i, " outside its arena"));
    }
  }
  return absl::OkStatus();
}

// The old block of a realloc, when the player can perform it as one.
uint32_t Replaced(const Recording& recording, const Allocation& allocation) {
  if (allocation.previous == kNone || allocation.size == 0) return kNone;
  const Allocation& old = recording.allocations[allocation.previous];
  const bool fits = old.death < allocation.birth && old.free_thread == allocation.thread;
  return fits ? allocation.previous : kNone;
}

absl::StatusOr<std::vector<Action>> ActionsByEvent(const Recording& recording) {
  std::vector<Action> actions(recording.events);
  const auto put = [&actions](uint64_t event, uint32_t allocation, bool death) {
    Action& action = actions[event];
    if (action.allocation != kNone) return false;
    action = {allocation, death};
    return true;
  };
  const std::vector<Allocation>& allocations = recording.allocations;
  for (uint32_t i = 0; i < allocations.size(); ++i) {
    const Allocation& it = allocations[i];
    if (!put(it.birth, i, false)) return Contradiction(i, "its birth shares an event");
    if (it.death != kNever && !put(it.death, i, true)) {
      return Contradiction(i, "its death shares an event");
    }
  }
  // The old block of a realloc goes with the new one's birth.
  for (const Allocation& it : allocations) {
    const uint32_t old = Replaced(recording, it);
    if (old != kNone) actions[allocations[old].death] = Action();
  }
  return actions;
}

uint32_t ThreadOf(const Recording& recording, const Action& action) {
  const Allocation& allocation = recording.allocations[action.allocation];
  return action.death ? allocation.free_thread : allocation.thread;
}

// Which player thread performs each recorded thread. Usually one each, numbered by first event.
struct Casting {
  std::vector<uint32_t> role;  // per recorded thread
  std::vector<uint64_t> last;  // per player thread: its last event
  uint32_t at_once = 0;
  uint32_t shared = 0;
};

Casting Cast(const Recording& recording, const std::vector<Action>& actions, uint32_t most) {
  struct Span {
    uint32_t thread;
    uint64_t first, last;
  };
  std::vector<uint32_t> span_of(recording.threads.size(), kNone);
  std::vector<Span> spans = {{0, 0, kNever}};  // thread 0 is there from start to end
  if (!span_of.empty()) span_of[0] = 0;
  for (uint64_t event = 0; event < actions.size(); ++event) {
    if (actions[event].allocation == kNone) continue;
    const uint32_t thread = ThreadOf(recording, actions[event]);
    if (span_of[thread] == kNone) {
      span_of[thread] = static_cast<uint32_t>(spans.size());
      spans.push_back({thread, event, event});
    } else if (thread != 0) {
      spans[span_of[thread]].last = event;
    }
  }

  Casting casting;
  casting.role.assign(std::max<size_t>(recording.threads.size(), 1), 0);
  std::vector<uint32_t> alive;           // player threads
  std::vector<uint64_t> alive_recorded;  // last events of recorded threads
  uint32_t next_to_share = 0;
  for (const Span& span : spans) {
    const auto ended = [&span](uint64_t last) { return last < span.first; };
    std::erase_if(alive, [&](uint32_t role) { return ended(casting.last[role]); });
    std::erase_if(alive_recorded, ended);
    alive_recorded.push_back(span.last);
    casting.at_once = std::max(casting.at_once, static_cast<uint32_t>(alive_recorded.size()));
    uint32_t role;
    if (alive.size() < std::max(most, 1u)) {
      role = static_cast<uint32_t>(casting.last.size());
      casting.last.push_back(span.last);
      alive.push_back(role);
    } else {
      role = alive[next_to_share++ % alive.size()];
      casting.last[role] = std::max(casting.last[role], span.last);
      ++casting.shared;
    }
    casting.role[span.thread] = role;
  }
  return casting;
}

// Writes the threads' operations while it walks over the recording.
class Writer {
 public:
  Writer(const Recording& recording, const LowerOptions& options, Casting casting)
      : recording_(recording),
        options_(options),
        casting_(std::move(casting)),
        threads_(casting_.last.size()),
        slot_of_(recording.allocations.size(), kNone) {
    threads_[0].started = true;
    if (options.order == Order::kDependencies) {
      signal_of_.resize(recording.allocations.size(), 0);
      for (Player& thread : threads_) thread.seen.resize(threads_.size(), 0);
    }
  }

  // Room for what `actions` become, but for what orders threads: growing takes twice the memory.
  void Reserve(const std::vector<Action>& actions) {
    std::vector<size_t> words(threads_.size());
    const size_t birth = options_.placement != nullptr ? 2 : 1;
    for (const Action& action : actions) {
      if (action.allocation == kNone) continue;
      words[casting_.role[ThreadOf(recording_, action)]] += action.death ? 1 : birth;
    }
    words[0] += HeaderWords() + options_.sample_events.size();
    for (size_t i = 0; i < threads_.size(); ++i) threads_[i].words.reserve(words[i]);
  }

  void Perform(uint64_t event, const Action& action) {
    const uint32_t thread = casting_.role[ThreadOf(recording_, action)];
    GoTo(thread);
    if (action.death) {
      Free(thread, action.allocation);
    } else {
      Allocate(thread, action.allocation);
    }
    ended_ = event == casting_.last[thread];
  }

  void Sample(uint32_t number) { Add(current_, kScriptSample, 0, number); }

  absl::StatusOr<Script> Finish() &&;

 private:
  struct Player {
    std::vector<uint64_t> words;
    std::vector<uint32_t> free_slots;
    std::vector<uint32_t>
        seen;  // kDependencies: the progress of each thread that this one waited for
    uint64_t progress = 0;
    bool started = false;
  };

  uint64_t HeaderWords() const {
    return (sizeof(ScriptHeader) + threads_.size() * sizeof(ScriptThread)) / 8;
  }

  void Add(uint32_t thread, ScriptKind kind, uint32_t slot_or_thread, uint64_t value) {
    threads_[thread].words.push_back(
        ScriptWord(kind, slot_or_thread, static_cast<uint32_t>(value)));
  }

  // `from` tells `to` how far it is. Returns what `to` has to wait for.
  uint64_t SignalTo(uint32_t from, uint32_t to) {
    const uint64_t progress = ++threads_[from].progress;
    Add(from, kScriptSignal, to, progress);
    return progress;
  }

  // From here on `thread` performs the events.
  void GoTo(uint32_t thread) {
    if (thread == current_) return;
    Player& next = threads_[thread];
    if (!next.started) {
      next.started = true;
      Add(current_, kScriptStart, thread, 0);
    } else if (options_.order == Order::kRecorded || ended_) {
      const uint64_t progress = SignalTo(current_, thread);
      Add(thread, kScriptWait, current_, progress);
    }
    if (ended_ && current_ != 0) Add(thread, kScriptJoin, current_, 0);
    current_ = thread;
  }

  // A slot goes back to the thread that freed it: only its own later operations are sure to come
  // after the free, whatever the order.
  uint32_t TakeSlot(uint32_t thread) {
    std::vector<uint32_t>& free_slots = threads_[thread].free_slots;
    if (free_slots.empty()) return slots_++;
    const uint32_t slot = free_slots.back();
    free_slots.pop_back();
    return slot;
  }

  // kDependencies: waits until the allocating thread has got so far.
  void WaitForBirth(uint32_t thread, uint32_t allocation) {
    if (options_.order != Order::kDependencies) return;
    const uint32_t owner = casting_.role[recording_.allocations[allocation].thread];
    const uint32_t signal = signal_of_[allocation];
    if (owner == thread || threads_[thread].seen[owner] >= signal) return;
    Add(thread, kScriptWait, owner, signal);
    threads_[thread].seen[owner] = signal;
  }

  void Free(uint32_t thread, uint32_t allocation) {
    WaitForBirth(thread, allocation);
    Add(thread, kScriptFree, slot_of_[allocation], 0);
    threads_[thread].free_slots.push_back(slot_of_[allocation]);
  }

  void Allocate(uint32_t thread, uint32_t index) {
    const Allocation& it = recording_.allocations[index];
    const uint32_t old = Replaced(recording_, it);
    if (old != kNone) WaitForBirth(thread, old);
    const uint32_t slot = old != kNone ? slot_of_[old] : TakeSlot(thread);
    slot_of_[index] = slot;

    ScriptKind kind = kScriptMalloc;
    if (it.kind == trace::AllocationKind::kCalloc) kind = kScriptCalloc;
    if (old != kNone) kind = kScriptRealloc;
    std::vector<uint64_t>& words = threads_[thread].words;
    if (it.size > UINT32_MAX || it.log2_alignment != 0) {
      Add(thread, kScriptExtended, slot, kind | uint64_t{it.log2_alignment} << 8);
      words.push_back(it.size);
    } else {
      Add(thread, kind, slot, it.size);
    }
    if (options_.placement != nullptr) {
      words.push_back(static_cast<uint64_t>(options_.placement->offsets[index]));
      if (kind == kScriptRealloc) words.push_back(recording_.allocations[old].size);
    }
    if (options_.order == Order::kDependencies && it.death != kNever) {
      const uint32_t end = casting_.role[it.free_thread];
      if (end != thread) signal_of_[index] = static_cast<uint32_t>(SignalTo(thread, end));
    }
  }

  const Recording& recording_;
  const LowerOptions& options_;
  Casting casting_;
  std::vector<Player> threads_;
  std::vector<uint32_t> slot_of_;    // per allocation
  std::vector<uint32_t> signal_of_;  // per allocation freed by another thread
  uint32_t slots_ = 0;
  uint32_t current_ = 0;
  bool ended_ = false;  // `current_` has just performed its last event
};

absl::StatusOr<Script> Writer::Finish() && {
  GoTo(0);  // the main thread outlives all others
  if (slots_ > kMostSlots) {
    return absl::ResourceExhaustedError("more blocks are alive at once than a script can name");
  }
  Script script;
  script.threads = static_cast<uint32_t>(threads_.size());
  script.threads_at_once = casting_.at_once;
  script.shared = casting_.shared;
  uint64_t words = HeaderWords();
  std::vector<ScriptThread> table;
  for (const Player& thread : threads_) {
    if (thread.progress > UINT32_MAX) {
      return absl::ResourceExhaustedError(
          "more hand-overs between threads than a script can count");
    }
    table.push_back({words, words + thread.words.size()});
    words += thread.words.size();
  }
  ScriptHeader header = {};
  header.magic = kScriptMagic;
  header.threads = script.threads;
  header.slots = slots_;
  header.words = words;
  if (options_.touch) header.flags |= kScriptTouch;
  if (options_.nothing) header.flags |= kScriptNothing;
  if (options_.observe) {
    header.flags |= kScriptObserve;
    header.samples = options_.sample_events.size();
    header.allocations = recording_.allocations.size();
  }
  if (options_.placement != nullptr) {
    header.flags |= kScriptPlan;
    header.arena_bytes = static_cast<uint64_t>(options_.placement->arena_bytes);
    header.granule = static_cast<uint32_t>(options_.placement->granule);
  }
  // The words of the first thread, mostly all there are, are moved up to make room for the header.
  script.words = std::move(threads_[0].words);
  script.words.reserve(words);
  script.words.insert(script.words.begin(), table[0].begin, 0);
  std::memcpy(script.words.data(), &header, sizeof(header));
  std::memcpy(script.words.data() + sizeof(header) / 8, table.data(),
              table.size() * sizeof(ScriptThread));
  for (size_t i = 1; i < threads_.size(); ++i) {
    script.words.insert(script.words.end(), threads_[i].words.begin(), threads_[i].words.end());
    threads_[i] = Player();
  }
  return script;
}

}  // namespace

absl::StatusOr<Script> Lower(const Recording& recording, const LowerOptions& options) {
  if (absl::Status status = Validate(recording); !status.ok()) return status;
  if (options.observe && options.order != Order::kRecorded) {
    return absl::FailedPreconditionError("only the recorded order can be observed");
  }
  if (options.placement != nullptr) {
    if (options.order != Order::kRecorded) {
      return absl::FailedPreconditionError("a plan holds for the recorded order only");
    }
    absl::Status status = Validate(recording, *options.placement);
    if (!status.ok()) return status;
  }
  absl::StatusOr<std::vector<Action>> actions = ActionsByEvent(recording);
  if (!actions.ok()) return actions.status();
  Writer writer(recording, options, Cast(recording, *actions, options.most_threads));
  writer.Reserve(*actions);
  size_t sample = 0;
  for (uint64_t event = 0; event < actions->size(); ++event) {
    if ((*actions)[event].allocation != kNone) writer.Perform(event, (*actions)[event]);
    while (sample < options.sample_events.size() && options.sample_events[sample] <= event) {
      writer.Sample(static_cast<uint32_t>(sample++));
    }
  }
  *actions = {};
  return std::move(writer).Finish();
}

}  // namespace reprise::replay
