foreach(part safety place order json aliases execution)
  reprise_test(planner_graph_${part}_test LABEL unit SOURCES planner_graph_${part}_test.cc
               LIBRARIES reprise::planner)
endforeach()
if(REPRISE_HAVE_CBC)
  target_compile_definitions(planner_graph_order_test PRIVATE REPRISE_HAVE_CBC)
endif()

# The fuzz target over its stored corpus, where there is no libFuzzer.
add_executable(graph_reader_corpus ../fuzz/graph_reader_fuzz.cc ../fuzz/run_corpus.cc)
target_link_libraries(graph_reader_corpus PRIVATE reprise_flags reprise_sanitize reprise_planner)
add_test(NAME graph_reader_corpus
         COMMAND graph_reader_corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/graph_reader)
set_tests_properties(graph_reader_corpus PROPERTIES LABELS unit TIMEOUT 300)
