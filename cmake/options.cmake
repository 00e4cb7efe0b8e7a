# How our own code is compiled: build type, warnings, sanitizers, coverage, ccache.

option(CARAVAN_WERROR "Treat warnings in Caravan as errors" OFF)
set(CARAVAN_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")
option(CARAVAN_COVERAGE "Count which lines run (gcov)" OFF)

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
