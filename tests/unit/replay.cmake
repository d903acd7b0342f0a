add_library(replay_test_support STATIC replay_recordings.cc replay_served_plan.cc)
target_link_libraries(replay_test_support PRIVATE reprise_flags reprise_sanitize
  PUBLIC reprise_replay)

reprise_test(replay_plan_test LABEL unit SOURCES replay_plan_test.cc
  LIBRARIES replay_test_support)
reprise_test(replay_lane_test LABEL unit SOURCES replay_lane_test.cc
  LIBRARIES replay_test_support reprise_arena)
reprise_test(replay_lessons_test LABEL unit SOURCES replay_lessons_test.cc
  LIBRARIES replay_test_support)
