#include "planner/core/shapes.h"

#include <algorithm>

namespace reprise::planner {

Shapes::Shapes(const Problem& problem)
    : jobs(problem.jobs),
      load(problem.load),
      first_piece(problem.first_piece),
      pieces(problem.pieces) {
  if (first_piece.empty()) return;
  gaps.resize(jobs.size());
  for (uint32_t j = 0; j < jobs.size(); ++j) {
    const auto from = pieces.begin() + first_piece[j];
    const auto to = pieces.begin() + first_piece[j + 1];
    if (from == to) continue;
    gaps[j] = std::any_of(from, to,
                          [&](const Piece& piece) {
                            return piece.window_lower > 0 || piece.window_upper < jobs[j].size;
                          }) ||
              to - from > 1;
    // What never lies at its address would have no start: it is a little larger then.
    if (std::all_of(from, to, [](const Piece& piece) { return piece.window_lower > 0; })) {
      for (uint32_t s = from->lower; s < from->upper; ++s) load[s] += from->window_lower;
      from->window_lower = 0;
      flat = false;
    }
    flat =
        flat && std::all_of(from, to, [](const Piece& piece) { return piece.window_lower == 0; });
  }
}

void Shapes::Mirror() {
  const auto sections = static_cast<uint32_t>(load.size());
  const auto turn = [&](auto& lives) {
    const uint32_t lower = lives.lower;
    lives.lower = sections - lives.upper;
    lives.upper = sections - lower;
  };
  std::reverse(load.begin(), load.end());
  for (Job& job : jobs) {
    if (job.lower < job.upper) turn(job);
  }
  for (Piece& piece : pieces) turn(piece);
  for (uint32_t j = 0; j + 1 < first_piece.size(); ++j) {
    std::reverse(pieces.begin() + first_piece[j], pieces.begin() + first_piece[j + 1]);
  }
}

uint32_t Shapes::Start(uint32_t job) const {
  if (!HasGaps(job)) return jobs[job].lower;
  uint32_t p = first_piece[job];
  while (pieces[p].window_lower > 0) ++p;
  return pieces[p].lower;
}

bool Shapes::Twins(uint32_t a, uint32_t b) const {
  if (jobs[a].lower != jobs[b].lower || jobs[a].upper != jobs[b].upper ||
      jobs[a].size != jobs[b].size || HasGaps(a) != HasGaps(b)) {
    return false;
  }
  return !HasGaps(a) ||
         std::equal(pieces.begin() + first_piece[a], pieces.begin() + first_piece[a + 1],
                    pieces.begin() + first_piece[b], pieces.begin() + first_piece[b + 1],
                    [](const Piece& x, const Piece& y) {
                      return x.lower == y.lower && x.upper == y.upper &&
                             x.window_lower == y.window_lower && x.window_upper == y.window_upper;
                    });
}

}  // namespace reprise::planner
