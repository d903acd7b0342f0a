add_library(trace_test_support STATIC trace_random_recording.cc trace_spool_builder.cc)
target_link_libraries(trace_test_support PRIVATE reprise_flags reprise_sanitize
  PUBLIC reprise_trace GTest::gtest PkgConfig::xxhash)

foreach(name android compact csv damage spool statistics)
  reprise_test(trace_${name}_test LABEL unit SOURCES trace_${name}_test.cc
               LIBRARIES trace_test_support)
endforeach()
target_compile_definitions(trace_csv_test PRIVATE REPRISE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
