#include "replay/arena/arena.h"

#include "base/page.h"

namespace reprise::replay {
namespace {

constexpr uint64_t kPage = base::kPageBytes;

uint64_t Pages(uint64_t bytes) { return (bytes + kPage - 1) & ~(kPage - 1); }

const PlanLane* PlanLanes(const PlanHeader& plan) {
  return reinterpret_cast<const PlanLane*>(reinterpret_cast<const char*>(&plan) +
                                           plan.lanes.offset);
}

// What a box that moves is aligned to at least: its blocks may be more strictly aligned than pages.
constexpr uint64_t kSpareAlignment = 2 << 20;

// No two blocks of an arena of that size are as far apart as a lane's last words say.
constexpr uint64_t kRoomy = kMostLaneGranules * kGranule - kPage;

}  // namespace

uint64_t Arena::AnnexBytes(const PlanHeader& plan) {
  uint64_t bytes = 0;
  const PlanLane* lanes = PlanLanes(plan);
  for (uint64_t i = 0; i < plan.lanes.count; ++i) bytes += Lane::AnnexBytes(plan, lanes[i]);
  return bytes;
}

uint64_t Arena::StateBytes(const PlanHeader& plan, uint64_t block_bytes) {
  uint64_t bytes = Pages(plan.lanes.count * sizeof(Lane)) +
                   Pages(block_bytes / kBoxAlignment * sizeof(uint32_t));
  const PlanLane* lanes = PlanLanes(plan);
  for (uint64_t i = 0; i < plan.lanes.count; ++i) bytes += Pages(Lane::StateBytes(plan, lanes[i]));
  return bytes;
}

void Arena::Start(const PlanHeader* plan, const LiveKeys& keys, const ArenaMemory& memory) {
  plan_ = plan;
  plan_lanes_ = PlanLanes(*plan);
  keys_ = keys;
  memory_ = memory;
  lanes_ = reinterpret_cast<Lane*>(memory.state);
  owner_ = reinterpret_cast<uint32_t*>(memory.state + Pages(plan->lanes.count * sizeof(Lane)));
  lane_state_ = reinterpret_cast<char*>(owner_) +
                Pages(memory.block_bytes / kBoxAlignment * sizeof(uint32_t));
  held_.Start(plan->arena_bytes, &other_counters()->annex_bytes);
}

void Arena::SetOwner(char* box, uint64_t bytes, uint32_t owner) {
  if (bytes == 0) return;
  uint32_t* entry = &owner_[(box - memory_.blocks) / kBoxAlignment];
  for (uint64_t page = 0; page < bytes / kBoxAlignment; ++page) {
    __atomic_store_n(&entry[page], owner, __ATOMIC_RELEASE);
  }
}

// Whether no other lane has a live block in the range. Lanes there whose threads have ended and
// whose blocks are all free are released.
bool Arena::Clear(char* box, uint64_t bytes) {
  const uint32_t* entry = &owner_[(box - memory_.blocks) / kBoxAlignment];
  for (uint64_t page = 0; page < bytes / kBoxAlignment; ++page) {
    if (entry[page] == 0) continue;
    Lane& other = lanes_[entry[page] - 1];
    if (other.state == kHeld || !other.Empty()) return false;
    held_.Take(other.GivenBytes());
    SetOwner(other.room().box, other.plan()->box_bytes, 0);
    SetOwner(other.room().annex, other.room().annex_bytes, 0);
    other.state = kReleased;
  }
  return true;
}

// Where the lane can run; null when nowhere.
char* Arena::BoxFor(const PlanLane& plan_lane, bool* moved) {
  *moved = false;
  char* box = memory_.blocks + plan_lane.box_offset;
  if (Clear(box, plan_lane.box_bytes)) return box;
  *moved = true;
  uint64_t alignment = kSpareAlignment;
  const auto* rings =
      reinterpret_cast<const PlanRing*>(reinterpret_cast<const char*>(plan_) + plan_->rings.offset);
  for (uint64_t ring = plan_lane.first_ring; ring < plan_lane.first_ring + plan_lane.rings;
       ++ring) {
    const uint64_t step = ShapeStep(keys_.Of(rings[ring].key).shape) * kGranule;
    if (step > alignment) alignment = step;
  }
  return Spare(plan_lane.box_bytes, alignment);
}

// Takes a part of the spare range, for good; null when there is none left.
char* Arena::Spare(uint64_t bytes, uint64_t alignment) {
  const uint64_t begin = (plan_->arena_bytes + spare_used_ + alignment - 1) & ~(alignment - 1);
  if (begin + bytes > memory_.block_bytes) return nullptr;
  spare_used_ = begin + bytes - plan_->arena_bytes;
  return memory_.blocks + begin;
}

// Whether a lane is still to be had and begins with this request.
bool Arena::BeginsWith(uint64_t index, uint64_t shape, uint64_t site) const {
  if (lanes_[index].state != kUnused) return false;
  const PlanLane& lane = plan_lanes_[index];
  const auto* words =
      reinterpret_cast<const uint32_t*>(reinterpret_cast<const char*>(plan_) + plan_->words.offset);
  const uint32_t* first = words + lane.first_word;
  if (DecodeWord(first, lane.offset_bits).kind != Word::kAllocation) return false;
  const LiveKey key = keys_.At(first, lane.offset_bits);
  return key.shape == shape && key.site == site;
}

// The index of the thread's own lane; the number of lanes when there is none.
uint64_t Arena::LaneNamed(uint64_t path) const {
  uint64_t named = 0;
  while (named < plan_->lanes.count && plan_lanes_[named].path != path) ++named;
  return named;
}

// The index of the lane for a thread; the number of lanes when there is none. Under the lock.
uint64_t Arena::FindLane(uint64_t path, uint64_t first_shape, uint64_t first_site) const {
  const uint64_t count = plan_->lanes.count;
  uint64_t named = LaneNamed(path);
  if (named < count && BeginsWith(named, first_shape, first_site)) return named;
  for (uint64_t index = 0; index < count; ++index) {
    if (BeginsWith(index, first_shape, first_site)) return index;
  }
  // Threads that begin alike may have taken each other's, in a circle or in a row.
  for (uint64_t step = 0; step < count && named < count; ++step) {
    const Lane& lane = lanes_[named];
    if (lane.state == kUnused || lane.taker == plan_lanes_[named].path) break;
    named = LaneNamed(lane.taker);
  }
  return named;
}

Lane* Arena::Take(uint64_t path, uint64_t first_shape, uint64_t first_site) {
  lock_.Lock();
  const uint64_t index = FindLane(path, first_shape, first_site);
  if (index == plan_->lanes.count) {
    lock_.Unlock();
    return nullptr;
  }
  const PlanLane& plan_lane = plan_lanes_[index];
  Lane* lane = &lanes_[index];
  Lane* taken = nullptr;
  bool moved = false;
  if (lane->state == kUnused) {
    Lane::Room room{};
    room.box = BoxFor(plan_lane, &moved);
    room.releases = memory_.releases;
    room.dear_pages = memory_.dear_pages;
    room.crowded = memory_.block_bytes > kRoomy;
    room.held = &held_;
    if (room.box != nullptr) {
      const uint64_t annex_bytes = Lane::AnnexBytes(*plan_, plan_lane);
      room.annex = Spare(annex_bytes, kBoxAlignment);
      room.annex_bytes = room.annex != nullptr ? annex_bytes : 0;
      LaneNotes notes;
      const uint32_t pages = CountersLayout::Of(*plan_).pages;
      notes.Attach(memory_.notes + index * pages, pages);
      lane->Start(plan_, &plan_lane, keys_, room, lane_state_, &memory_.counters[index], notes);
      lane_state_ += Pages(Lane::StateBytes(*plan_, plan_lane));
      lane->counters()->moved = moved ? 1 : 0;
      lane->taker = path;
      __atomic_store_n(&lane->state, int32_t{kHeld}, __ATOMIC_RELEASE);
      SetOwner(room.box, plan_lane.box_bytes, static_cast<uint32_t>(index + 1));
      SetOwner(room.annex, room.annex_bytes, static_cast<uint32_t>(index + 1));
      taken = lane;
    }
  }
  lock_.Unlock();
  return taken;
}

void Arena::Leave(Lane* lane) {
  lane->Publish();
  lock_.Lock();
  lane->state = kLeft;
  lock_.Unlock();
}

LaneCounters* Arena::TakeCounters() {
  static_assert(kOtherCounters == 32);
  uint32_t taken = __atomic_load_n(&others_taken_, __ATOMIC_RELAXED);
  while (taken != ~uint32_t{0}) {
    const int first = __builtin_ctz(~taken);
    if (__atomic_compare_exchange_n(&others_taken_, &taken, taken | uint32_t{1} << first,
                                    /*weak=*/true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
      return other_counters() + first;
    }
  }
  return nullptr;
}

void Arena::LeaveCounters(const LaneCounters* counters) {
  const auto index = static_cast<unsigned>(counters - other_counters());
  __atomic_fetch_and(&others_taken_, ~(uint32_t{1} << index), __ATOMIC_RELEASE);
}

void Arena::Publish() const {
  for (uint64_t index = 0; index < plan_->lanes.count; ++index) {
    if (__atomic_load_n(&lanes_[index].state, __ATOMIC_ACQUIRE) == kHeld) lanes_[index].Publish();
  }
}

}  // namespace reprise::replay
