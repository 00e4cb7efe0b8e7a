# Precompiled headers, in a quick build alone: where a source forgets an include, the other builds say so.
#
# caravan_precompiled(NAME [FOR_TESTS] LIBRARIES LIBRARY... HEADERS HEADER...) makes a target that holds the headers, compiled as what
# links the libraries is; caravan_precompile(TARGET NAME) lets a target, whose flags must be the same, begin with them.
function(caravan_precompiled name)
  cmake_parse_arguments(PARSE_ARGV 1 given "FOR_TESTS" "" "LIBRARIES;HEADERS")
  if(NOT CARAVAN_QUICK_BUILD)
    return()
  endif()
  set(source ${PROJECT_BINARY_DIR}/generated/${name}.cpp)
  if(NOT EXISTS ${source})
    file(WRITE ${source} "")
  endif()
  add_library(${name} OBJECT ${source})
  target_link_libraries(${name} PRIVATE ${given_LIBRARIES})
  target_precompile_headers(${name} PRIVATE ${given_HEADERS})
  if(given_FOR_TESTS)
    caravan_test_target(${name})
  else()
    caravan_own_target(${name})
  endif()
endfunction()

function(caravan_precompile target name)
  if(TARGET ${name})
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

# What most sources of the library and of the command include.
caravan_precompiled(
  caravan_headers
  LIBRARIES fmt::fmt
  HEADERS <algorithm> <array> <bit> <charconv> <cmath> <cstring> <filesystem> <fmt/format.h> <functional> <map> <memory> <numeric>
          <optional> <set> <span> <sstream> <string> <string_view> <unordered_map> <utility> <variant> <vector>)
