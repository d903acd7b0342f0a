reprise_test(replay_plan_test LABEL unit
  SOURCES replay_plan_test.cc replay_recordings.cc LIBRARIES reprise_replay)
reprise_test(replay_lane_test LABEL unit
  SOURCES replay_lane_test.cc replay_recordings.cc LIBRARIES reprise_replay reprise_arena)
reprise_test(replay_lessons_test LABEL unit
  SOURCES replay_lessons_test.cc replay_recordings.cc LIBRARIES reprise_replay)
