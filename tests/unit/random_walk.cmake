foreach(name bits page_walk run_walk formulas)
  reprise_test(random_walk_${name}_test LABEL unit SOURCES random_walk_${name}_test.cc
               LIBRARIES reprise::random_walk)
endforeach()
reprise_test(random_walk_cpu_pool_test LABEL unit SOURCES random_walk_cpu_pool_test.cc
             LIBRARIES reprise::random_walk Threads::Threads)
# The malloc of librandom_walk.so, called by its own names and with this test's sanitizers.
set(heap_sources heap.cc large.cc zone.cc)
list(TRANSFORM heap_sources PREPEND ${PROJECT_SOURCE_DIR}/random_walk/preload/)
reprise_test(random_walk_heap_test LABEL unit SOURCES random_walk_heap_test.cc ${heap_sources}
             LIBRARIES reprise::random_walk Threads::Threads)
# Fibers, which the sanitizers do not follow. The other tests run the same algorithms with them.
if(NOT REPRISE_SANITIZE)
  reprise_test(random_walk_device_warp_test LABEL unit SOURCES random_walk_device_warp_test.cc
               LIBRARIES reprise::random_walk)
endif()
# Needs a CUDA device; else it is skipped. workloads/bench/device.sh does more.
if(TARGET bench_random_walk_device)
  add_test(NAME random_walk_device_check COMMAND bench_random_walk_device check)
  set_tests_properties(random_walk_device_check PROPERTIES LABELS unit SKIP_RETURN_CODE 77 TIMEOUT 120)
endif()
