add_library(trace_test_support STATIC trace_random_recording.cc trace_spool_builder.cc
  trace_vectors.cc)
target_link_libraries(trace_test_support PRIVATE reprise_flags reprise_sanitize
  PUBLIC reprise_trace GTest::gtest PkgConfig::xxhash)
target_compile_definitions(trace_test_support PUBLIC REPRISE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")

foreach(name android compact csv damage format spool spool_drain statistics)
  reprise_test(trace_${name}_test LABEL unit SOURCES trace_${name}_test.cc
               LIBRARIES trace_test_support)
endforeach()
reprise_test(trace_cli_test LABEL unit SOURCES trace_cli_test.cc
             LIBRARIES trace_test_support nlohmann_json::nlohmann_json)
target_compile_definitions(trace_cli_test PRIVATE
  REPRISE_COMMAND="$<TARGET_FILE:reprise_command>")
add_dependencies(trace_cli_test reprise_command)

# The fuzz target over its stored corpus, where there is no libFuzzer.
add_executable(trace_reader_corpus ../fuzz/trace_reader_fuzz.cc ../fuzz/run_corpus.cc)
target_link_libraries(trace_reader_corpus PRIVATE reprise_flags reprise_sanitize reprise_trace)
add_test(NAME trace_reader_corpus
         COMMAND trace_reader_corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/trace_reader)
set_tests_properties(trace_reader_corpus PROPERTIES LABELS unit TIMEOUT 300)
