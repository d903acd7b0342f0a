add_library(replay_test_support STATIC replay_recordings.cc replay_served_plan.cc)
target_link_libraries(replay_test_support PRIVATE reprise_flags reprise_sanitize
  PUBLIC reprise_replay)

# The arena as sanitizers see it: reprise_arena is what a program gets, without them.
get_target_property(arena_sources reprise_arena SOURCES)
list(TRANSFORM arena_sources PREPEND ${PROJECT_SOURCE_DIR}/replay/)
add_library(replay_arena_seen STATIC ${arena_sources})
target_link_libraries(replay_arena_seen PRIVATE reprise_flags reprise_sanitize)

reprise_test(replay_plan_test LABEL unit SOURCES replay_plan_test.cc
  LIBRARIES replay_test_support)
reprise_test(replay_lane_test LABEL unit SOURCES replay_lane_test.cc
  LIBRARIES replay_test_support replay_arena_seen)
reprise_test(replay_lane_deviation_test LABEL unit SOURCES replay_lane_deviation_test.cc
  LIBRARIES replay_test_support replay_arena_seen)
reprise_test(replay_lane_free_test LABEL unit SOURCES replay_lane_free_test.cc
  LIBRARIES replay_test_support replay_arena_seen)
reprise_test(replay_lane_pages_test LABEL unit SOURCES replay_lane_pages_test.cc
  LIBRARIES replay_test_support replay_arena_seen)
reprise_test(replay_arena_test LABEL unit SOURCES replay_arena_test.cc
  LIBRARIES replay_test_support replay_arena_seen)
reprise_test(replay_block_notes_test LABEL unit SOURCES replay_block_notes_test.cc
  LIBRARIES reprise_replay)
reprise_test(replay_block_set_test LABEL unit SOURCES replay_block_set_test.cc
  LIBRARIES reprise_replay)
reprise_test(replay_long_gaps_test LABEL unit SOURCES replay_long_gaps_test.cc
  LIBRARIES reprise_replay)
reprise_test(replay_chains_test LABEL unit SOURCES replay_chains_test.cc
  LIBRARIES replay_test_support)
reprise_test(replay_fetched_ahead_test LABEL unit SOURCES replay_fetched_ahead_test.cc
  LIBRARIES reprise_replay)
reprise_test(replay_lessons_test LABEL unit SOURCES replay_lessons_test.cc
  LIBRARIES replay_test_support)

add_executable(replay_soak replay_soak.cc)
target_link_libraries(replay_soak PRIVATE reprise_flags reprise_sanitize replay_test_support
  replay_arena_seen CLI11::CLI11 Threads::Threads)
add_test(NAME replay_soak COMMAND replay_soak --operations 20000000 --seconds 8 --seed 4)
set_tests_properties(replay_soak PROPERTIES LABELS unit TIMEOUT 120)
reprise_test(replay_plan_verifier_test LABEL unit SOURCES replay_plan_verifier_test.cc
  LIBRARIES replay_test_support)
