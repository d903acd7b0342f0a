foreach(name atomic_file text json_text)
  reprise_test(base_${name}_test LABEL unit SOURCES base_${name}_test.cc LIBRARIES reprise_base)
endforeach()
