foreach(name bits page_walk run_walk formulas)
  reprise_test(random_walk_${name}_test LABEL unit SOURCES random_walk_${name}_test.cc
               LIBRARIES reprise::random_walk)
endforeach()
reprise_test(random_walk_cpu_pool_test LABEL unit SOURCES random_walk_cpu_pool_test.cc
             LIBRARIES reprise::random_walk Threads::Threads)
