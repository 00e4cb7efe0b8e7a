# What `cmake --install` leaves: public headers, libraries, the command, and two ways to find them.
#   CMake:       find_package(caravan REQUIRED)   target_link_libraries(app PRIVATE caravan::caravan)
#   pkg-config:  c++ -std=c++20 app.cpp $(pkg-config --cflags --libs caravan)
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/caravan)
install(CODE "set(include_folder ${CMAKE_INSTALL_INCLUDEDIR})")
install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/install_headers.cmake)
install(EXPORT caravanTargets NAMESPACE caravan:: DESTINATION ${package_folder})
configure_package_config_file(cmake/caravanConfig.cmake.in ${PROJECT_BINARY_DIR}/caravanConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/caravanConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/caravanConfig.cmake ${PROJECT_BINARY_DIR}/caravanConfigVersion.cmake
        DESTINATION ${package_folder})

set(CARAVAN_PC_LIBS "")
foreach(layer IN LISTS CARAVAN_LAYERS)
  caravan_layer_target(target ${layer})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL STATIC_LIBRARY)
    string(PREPEND CARAVAN_PC_LIBS "-l${target} ")  # users of a layer before the layer
  endif()
endforeach()
file(RELATIVE_PATH CARAVAN_PC_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)  # the package can be moved
configure_file(cmake/caravan.pc.in ${PROJECT_BINARY_DIR}/caravan.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/caravan.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
