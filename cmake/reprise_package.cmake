# Debian packages, by `cpack -G DEB` (scripts/package.sh): reprise is what people run, libreprise-dev
# the libraries for find_package(reprise).
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "the authors of reprise <reprise@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL command development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME reprise)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SUGGESTS
  "libjemalloc2, libtcmalloc-minimal4t64 | libtcmalloc-minimal4, libmimalloc2.0 | libmimalloc2.1")
set(CPACK_COMPONENT_COMMAND_DESCRIPTION "reprise records every malloc and free of an unmodified program, plans where
each block should have gone, and runs the program again from that plan.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libreprise-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "libabsl-dev, libzstd-dev, libxxhash-dev, pkg-config")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "The trace, planner and random-walk libraries of reprise, with their headers
and CMake package files.")
include(CPack)
