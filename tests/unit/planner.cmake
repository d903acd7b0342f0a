reprise_test(planner_boxing_test LABEL unit SOURCES planner_boxing_test.cc
             LIBRARIES reprise::planner)
reprise_test(planner_check_test LABEL unit SOURCES planner_check_test.cc LIBRARIES reprise::planner)
reprise_test(planner_instance_test LABEL unit SOURCES planner_instance_test.cc
             LIBRARIES reprise::planner)
reprise_test(planner_occupancy_test LABEL unit SOURCES planner_occupancy_test.cc
             LIBRARIES reprise::planner)
reprise_test(planner_strategies_test LABEL unit SOURCES planner_strategies_test.cc
             LIBRARIES reprise::planner Threads::Threads)
reprise_test(planner_searches_test LABEL unit SOURCES planner_searches_test.cc
             LIBRARIES reprise::planner Threads::Threads)
reprise_test(planner_benchmarks_test LABEL unit SOURCES planner_benchmarks_test.cc
             LIBRARIES reprise::planner reprise::trace)
target_compile_definitions(planner_benchmarks_test PRIVATE
  REPRISE_BENCHMARKS="${PROJECT_SOURCE_DIR}/../shared/benchmarks")
