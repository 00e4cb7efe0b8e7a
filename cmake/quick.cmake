# What makes a quick build quick, and is done in no other: where a source forgets an include, the other builds say so.

# caravan_unite(TARGET): several sources are compiled as one, so that the headers they share are read once, and the templates that
# they share are compiled once.
function(caravan_unite target)
  if(CARAVAN_QUICK_BUILD)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${CARAVAN_SOURCES_TOGETHER})
    # GCC takes the sources that such a unit includes for headers, and warns where a class of theirs has a member of a type that is
    # in an anonymous namespace.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

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
    caravan_unoptimised_target(${name})
  else()
    caravan_own_target(${name})
  endif()
endfunction()

function(caravan_precompile target name)
  if(TARGET ${name})
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()
