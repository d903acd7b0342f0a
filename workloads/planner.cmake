add_executable(synthetic_trace synthetic_trace_main.cc synthetic_trace.cc)
target_link_libraries(synthetic_trace PRIVATE CLI11::CLI11)
target_compile_options(synthetic_trace PRIVATE -Wall -Wextra $<$<BOOL:${REPRISE_WERROR}>:-Werror>)
