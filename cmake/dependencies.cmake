# Dependencies come from the system. Only what the library itself needs stops a configure.

set(CARAVAN_FOUND "")
set(CARAVAN_MISSING "")
set(CARAVAN_MISSING_PACKAGES "")

# caravan_find(<package> <Debian package> <what it is for>) looks, and remembers for the summary.
macro(caravan_find package debian purpose)
  find_package(${package} QUIET)
  if(${package}_FOUND)
    list(APPEND CARAVAN_FOUND "${package} ${${package}_VERSION}")
  else()
    list(APPEND CARAVAN_MISSING "${package} (${purpose})")
    list(APPEND CARAVAN_MISSING_PACKAGES ${debian})
  endif()
endmacro()

# A sentence for the summary.
function(caravan_note sentence)
  set_property(GLOBAL APPEND PROPERTY CARAVAN_NOTES "${sentence}")
endfunction()

function(caravan_summary)
  list(JOIN CARAVAN_FOUND ", " found)
  message(STATUS "Caravan ${PROJECT_VERSION}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, ${CMAKE_BUILD_TYPE}")
  message(STATUS "  found:   ${found}")
  if(CARAVAN_MISSING)
    list(JOIN CARAVAN_MISSING ", " missing)
    list(JOIN CARAVAN_MISSING_PACKAGES " " packages)
    message(STATUS "  missing: ${missing}")
    message(STATUS "  install: apt-get install ${packages}")
  endif()
  get_property(notes GLOBAL PROPERTY CARAVAN_NOTES)
  foreach(note IN LISTS notes)
    message(STATUS "  ${note}")
  endforeach()
endfunction()

caravan_find(fmt libfmt-dev "the library")
caravan_find(CLI11 libcli11-dev "the command")
caravan_find(nlohmann_json nlohmann-json3-dev "the library")
caravan_find(tomlplusplus libtomlplusplus-dev "the command")
caravan_find(ZLIB zlib1g-dev "the library")
caravan_find(GTest libgtest-dev "the tests")

if(NOT (fmt_FOUND AND nlohmann_json_FOUND AND ZLIB_FOUND))
  caravan_summary()
  message(FATAL_ERROR "Caravan cannot be built without fmt, nlohmann_json and zlib: see the install line above.")
endif()
