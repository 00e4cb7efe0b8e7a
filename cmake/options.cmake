# How our own code is compiled: build type, warnings, sanitizers, coverage, ccache, a quick build.

option(CARAVAN_WERROR "Treat warnings in Caravan as errors" OFF)
set(CARAVAN_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")
option(CARAVAN_COVERAGE "Count which lines run (gcov)" OFF)
option(CARAVAN_QUICK_BUILD "Spend memory to build in less time: several sources a unit, precompiled headers, fewer collections by GCC, gold" OFF)
set(CARAVAN_SOURCES_TOGETHER 8 CACHE STRING "How many sources of a folder a quick build compiles as one")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug or Release" FORCE)
endif()

set(CARAVAN_WARNINGS -Wall -Wextra -Wpedantic -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-qual
                     $<$<BOOL:${CARAVAN_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND CARAVAN_WARNINGS -Wno-restrict)  # false alarms on std::string concatenation (GCC bug 105651)
endif()

if(CARAVAN_SANITIZE)
  add_compile_options(-fsanitize=${CARAVAN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${CARAVAN_SANITIZE})
endif()
if(CARAVAN_COVERAGE)
  add_compile_options(--coverage)
  add_link_options(--coverage)
endif()

find_program(CCACHE ccache)
mark_as_advanced(CCACHE)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

if(CARAVAN_QUICK_BUILD)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # GCC collects garbage from 128 MB on; few of our sources need more than 512 MB
    add_compile_options(--param=ggc-min-heapsize=524288)
  endif()
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=gold CARAVAN_GOLD)  # of binutils; a hundred programs are linked, each in half the time
  if(CARAVAN_GOLD)
    add_link_options(-fuse-ld=gold)
  endif()
  if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache$")  # caches nothing that has a precompiled header unless told so
    set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
endif()
