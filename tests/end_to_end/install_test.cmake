# Needs the whole build. Sanitized libraries are not for installing.
if(NOT REPRISE_SANITIZE)
  add_test(NAME install_test
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/install_test.sh ${PROJECT_BINARY_DIR})
  set_tests_properties(install_test PROPERTIES LABELS end_to_end TIMEOUT 300)
endif()
