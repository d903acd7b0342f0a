add_library(trace_test_support STATIC trace_random_recording.cc trace_spool_builder.cc
  trace_vectors.cc)
target_link_libraries(trace_test_support PRIVATE reprise_flags reprise_sanitize
  PUBLIC reprise_trace GTest::gtest PkgConfig::xxhash)
target_compile_definitions(trace_test_support PUBLIC REPRISE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")

foreach(name android compact csv damage format limits spool spool_drain statistics)
  reprise_test(trace_${name}_test LABEL unit SOURCES trace_${name}_test.cc
               LIBRARIES trace_test_support)
endforeach()
reprise_test(trace_cli_test LABEL unit SOURCES trace_cli_test.cc
             LIBRARIES trace_test_support nlohmann_json::nlohmann_json)
target_compile_definitions(trace_cli_test PRIVATE
  REPRISE_COMMAND="$<TARGET_FILE:reprise_command>")
add_dependencies(trace_cli_test reprise_command)
