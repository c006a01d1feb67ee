# Programs and scenarios, and the library: a package that find_package(tandem) finds, whose headers are those of include/tandem.

set(programs tandem)
if(TANDEM_SIM)
  list(APPEND programs tandem-study)
endif()
install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(DIRECTORY scenarios plots DESTINATION ${CMAKE_INSTALL_DATADIR}/tandem COMPONENT program)

# Package tandem-worker: in a folder of its own, so that both packages can be installed.
set(device_folder lib/tandem-worker)
if(TANDEM_SIM)
  install(PROGRAMS $<TARGET_FILE:tandem_device> DESTINATION ${device_folder}/bin RENAME tandem
          COMPONENT device EXCLUDE_FROM_ALL)
else()
  install(TARGETS tandem RUNTIME DESTINATION ${device_folder}/bin COMPONENT device EXCLUDE_FROM_ALL)
endif()
install(DIRECTORY scenarios plots DESTINATION ${device_folder}/share/tandem
        COMPONENT device EXCLUDE_FROM_ALL)

# The library, which predicts, too: not without the simulator.
if(NOT TANDEM_SIM)
  return()
endif()
include(CMakePackageConfigHelpers)
get_property(libraries GLOBAL PROPERTY TANDEM_LIBRARIES)
list(REMOVE_ITEM libraries tandem_study)
install(TARGETS ${libraries} EXPORT tandem-targets
        COMPONENT development
        FILE_SET public DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
install(EXPORT tandem-targets NAMESPACE tandem:: DESTINATION ${package_folder} COMPONENT development)
configure_package_config_file(
  cmake/tandem-config.cmake.in ${PROJECT_BINARY_DIR}/tandem-config.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tandem-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tandem-config.cmake
              ${PROJECT_BINARY_DIR}/tandem-config-version.cmake
        DESTINATION ${package_folder} COMPONENT development)
