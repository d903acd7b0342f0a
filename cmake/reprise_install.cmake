# What `cmake --install` puts where: the command, the preload library and the player, so that they
# find each other; and the trace, planner and random_walk libraries for find_package(reprise).
include(CMakePackageConfigHelpers)

set(reprise_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/reprise)

install(TARGETS reprise_base reprise_trace reprise_planner reprise_random_walk EXPORT reprise_targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/base ${PROJECT_SOURCE_DIR}/trace ${PROJECT_SOURCE_DIR}/planner
        ${PROJECT_SOURCE_DIR}/random_walk
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/reprise COMPONENT development FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh"
        PATTERN preload EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/interpose/include/reprise/marks.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/reprise COMPONENT development)
install(EXPORT reprise_targets NAMESPACE reprise:: DESTINATION ${reprise_package_dir}
        COMPONENT development)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/reprise-config.cmake.in
  ${PROJECT_BINARY_DIR}/reprise-config.cmake INSTALL_DESTINATION ${reprise_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/reprise-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/reprise-config.cmake
              ${PROJECT_BINARY_DIR}/reprise-config-version.cmake
        DESTINATION ${reprise_package_dir} COMPONENT development)

# The command installs itself (cli/CMakeLists.txt) and looks for these two beside it.
install(TARGETS reprise_preload LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT command)
install(TARGETS reprise_player RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/reprise
        COMPONENT command)

# Where Debian's python3 finds modules.
install(FILES ${PROJECT_SOURCE_DIR}/python/reprise/__init__.py
        DESTINATION lib/python3/dist-packages/reprise COMPONENT command)

# Beside the licence of this, those of what is built in.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE
        DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT command)
