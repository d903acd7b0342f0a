add_executable(synthetic_trace synthetic_trace_main.cc synthetic_trace.cc)
target_link_libraries(synthetic_trace PRIVATE CLI11::CLI11)
target_compile_options(synthetic_trace PRIVATE -Wall -Wextra $<$<BOOL:${REPRISE_WERROR}>:-Werror>)

# Runs the installed command, so it links nothing of ours either.
add_executable(bench_planner bench_planner.cc)
target_link_libraries(bench_planner PRIVATE CLI11::CLI11 nlohmann_json::nlohmann_json
                      Threads::Threads)
target_compile_options(bench_planner PRIVATE -Wall -Wextra $<$<BOOL:${REPRISE_WERROR}>:-Werror>)
