# The flags every target of ours shares, and the two kinds of library: ordinary and hook-safe.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# All executables find the preload library beside them: bin/reprise, lib/libreprise.so.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

add_library(reprise_flags INTERFACE)
target_compile_options(reprise_flags INTERFACE -Wall -Wextra -Wshadow -Wno-sign-compare
                       $<$<BOOL:${REPRISE_WERROR}>:-Werror>)
target_include_directories(reprise_flags INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)

# Sanitizers apply to our own process, never to code that is loaded into somebody else's.
add_library(reprise_sanitize INTERFACE)
if(REPRISE_SANITIZE)
  target_compile_options(reprise_sanitize INTERFACE -fsanitize=${REPRISE_SANITIZE}
                         -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  target_link_options(reprise_sanitize INTERFACE -fsanitize=${REPRISE_SANITIZE})
endif()
if(REPRISE_COVERAGE)  # scripts/coverage.sh
  target_compile_options(reprise_sanitize INTERFACE -fprofile-instr-generate -fcoverage-mapping)
  target_link_options(reprise_sanitize INTERFACE -fprofile-instr-generate)
endif()
if(REPRISE_FUZZ)  # a fuzzer needs to see what its inputs reach
  target_compile_options(reprise_sanitize INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(reprise_sanitize INTERFACE -fsanitize=fuzzer-no-link)
endif()

# What reads files that others made: overruns end the process. Not for libreprise.so, in which each
# instruction of malloc counts.
add_library(reprise_hardened INTERFACE)
if(REPRISE_HARDEN AND NOT REPRISE_SANITIZE)
  target_compile_options(reprise_hardened INTERFACE -fstack-protector-strong
    $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE>
    $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-D_FORTIFY_SOURCE=2>)
endif()

# reprise_harden(TARGET): an executable at a random address, whose tables of functions are read-only.
function(reprise_harden name)
  target_link_libraries(${name} PRIVATE reprise_hardened)
  target_link_options(${name} PRIVATE -pie -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
endfunction()

# Code that runs inside someone else's process: no exceptions, no RTTI, no C++ runtime, and
# thread-local storage that never calls into the loader.
add_library(reprise_hook_flags INTERFACE)
target_compile_options(reprise_hook_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti -fno-threadsafe-statics>
  -ftls-model=initial-exec -fvisibility=hidden -fno-builtin-malloc -fno-builtin-free
  -fno-builtin-calloc -fno-builtin-realloc)
target_link_libraries(reprise_hook_flags INTERFACE reprise_flags)

# reprise_precompiled(TARGET): headers that nearly every file reads are compiled once, with reprise_base.
# For static libraries with the flags of that one.
function(reprise_precompiled name)
  if(name STREQUAL reprise_base)
    target_precompile_headers(${name} PRIVATE <algorithm> <functional> <string> <vector>
      <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h>)
  else()
    target_precompile_headers(${name} REUSE_FROM reprise_base)
  endif()
endfunction()

# reprise_unity(TARGET FILES): so many source files are compiled as one, which reads the headers and
# expands the templates once. Names in unnamed namespaces of a target must differ; -DREPRISE_UNITY=OFF
# compiles each file alone, as clang-tidy needs it.
function(reprise_unity name files)
  set_target_properties(${name} PROPERTIES
    UNITY_BUILD ${REPRISE_UNITY} UNITY_BUILD_BATCH_SIZE ${files})
endfunction()

# reprise_library(NAME source...): an ordinary library of one room, exported as reprise::NAME.
function(reprise_library name)
  add_library(reprise_${name} STATIC ${ARGN})
  add_library(reprise::${name} ALIAS reprise_${name})
  set_target_properties(reprise_${name} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(reprise_${name} PRIVATE $<BUILD_INTERFACE:reprise_flags>
                        $<BUILD_INTERFACE:reprise_sanitize> $<BUILD_INTERFACE:reprise_hardened>)
  reprise_precompiled(reprise_${name})
  reprise_unity(reprise_${name} 16)
  target_include_directories(reprise_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/reprise>)
endfunction()
