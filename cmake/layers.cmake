# One static library per folder of the library: caravan_<name>, for users caravan::<name>.

# The target of a layer is named by the last part of its folder: backend/interp is caravan_interp.
function(caravan_layer_target out layer)
  get_filename_component(name ${layer} NAME)
  set(${out} caravan_${name} PARENT_SCOPE)
endfunction()

# Reads layers.txt into CARAVAN_LAYERS and, for each layer, CARAVAN_LAYER_<layer> (the layers it uses).
macro(caravan_read_layers)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/layers.txt)
  file(STRINGS ${PROJECT_SOURCE_DIR}/cmake/layers.txt rows REGEX "^[a-z]")
  set(CARAVAN_LAYERS "")
  foreach(row IN LISTS rows)
    string(REGEX MATCH "^([a-z_/]+):(.*)$" matched "${row}")
    set(layer ${CMAKE_MATCH_1})
    separate_arguments(CARAVAN_LAYER_${layer} UNIX_COMMAND "${CMAKE_MATCH_2}")
    list(APPEND CARAVAN_LAYERS ${layer})
  endforeach()
endmacro()

# A release compiles these layers, whose own code touches every element or every step, at -O2 and all others at -O1: what takes
# time in a program are its kernels, which the system's C compiler optimises. -O3 for everything takes a third longer to build, and
# GCC 12 gives pages of false warnings about what it inlined. At -O1 GCC calls even std::string::size(), unless told to inline.
set(CARAVAN_HOT_LAYERS base ops array data backend backend/interp backend/cc runtime)

# caravan_own_target(TARGET [LAYER]): flags of our own targets, which are not the flags of those who link to them.
function(caravan_own_target target)
  set(level -O1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND level -finline-small-functions)
  endif()
  if("${ARGN}" IN_LIST CARAVAN_HOT_LAYERS)
    set(level -O2)
  endif()
  target_compile_options(${target} PRIVATE ${CARAVAN_WARNINGS} "$<$<CONFIG:Release>:${level}>")
  if("${ARGN}" STREQUAL backend/interp AND CARAVAN_QUICK_BUILD)  # most tests wait for the interpreter
    target_compile_options(${target} PRIVATE -O2)
  endif()
endfunction()

# caravan_unoptimised_target(TARGET): those of the command and of tests. Where they are not released, optimising them takes longer than
# they run.
function(caravan_unoptimised_target target)
  caravan_own_target(${target})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Debug>:-O0>)
endfunction()

# caravan_layer([generated sources...]): the layer of the current folder, from its *.cpp.
# A folder that has only headers is an INTERFACE library until its first source arrives.
function(caravan_layer)
  file(RELATIVE_PATH layer ${PROJECT_SOURCE_DIR}/caravan ${CMAKE_CURRENT_SOURCE_DIR})
  caravan_layer_target(target ${layer})
  get_filename_component(name ${layer} NAME)
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  list(APPEND sources ${ARGN})

  if(sources)
    set(scope PUBLIC)
    add_library(${target} STATIC ${sources})
    # Headers that only our sources include, so users of the package need no JSON library.
    target_link_libraries(${target} PRIVATE fmt::fmt $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
    caravan_own_target(${target} ${layer})
    caravan_unite(${target})
    if(CMAKE_BUILD_TYPE STREQUAL Debug AND NOT layer STREQUAL backend/interp)  # all of them are compiled with the same flags
      caravan_precompile(${target} caravan_layer_headers)
    endif()
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
  endif()
  add_library(caravan::${name} ALIAS ${target})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS ${target} EXPORT caravanTargets)
  foreach(used IN LISTS CARAVAN_LAYER_${layer})
    caravan_layer_target(used_target ${used})
    target_link_libraries(${target} ${scope} ${used_target})
  endforeach()
endfunction()
