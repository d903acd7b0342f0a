reprise_test(trace_symbols_test LABEL unit SOURCES trace_symbols_test.cc
             LIBRARIES reprise_symbols)
target_compile_options(trace_symbols_test PRIVATE -g)
target_link_options(trace_symbols_test PRIVATE -Wl,--build-id)  # clang gives none by itself
reprise_test(trace_export_test LABEL unit SOURCES trace_export_test.cc
             LIBRARIES reprise_export nlohmann_json::nlohmann_json)
reprise_test(trace_what_if_test LABEL unit SOURCES trace_what_if_test.cc LIBRARIES reprise_export)
