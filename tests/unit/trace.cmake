add_library(trace_test_support STATIC trace_random_recording.cc trace_spool_builder.cc)
target_link_libraries(trace_test_support PRIVATE reprise_flags reprise_sanitize
  PUBLIC reprise_trace GTest::gtest PkgConfig::xxhash)

foreach(name compact damage spool)
  reprise_test(trace_${name}_test LABEL unit SOURCES trace_${name}_test.cc
               LIBRARIES trace_test_support)
endforeach()
