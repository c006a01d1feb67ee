# Libraries, headers, program and scenarios, and a package that find_package(tandem) finds.

include(CMakePackageConfigHelpers)
get_property(libraries GLOBAL PROPERTY TANDEM_LIBRARIES)
install(TARGETS ${libraries} EXPORT tandem-targets
        COMPONENT development
        FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem COMPONENT development)
set(programs tandem)
if(TANDEM_SIM)
  list(APPEND programs tandem-study)
endif()
install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(EXPORT tandem-targets NAMESPACE tandem::
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tandem COMPONENT development)
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
configure_package_config_file(
  cmake/tandem-config.cmake.in ${PROJECT_BINARY_DIR}/tandem-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tandem-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tandem-config.cmake
              ${PROJECT_BINARY_DIR}/tandem-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tandem COMPONENT development)
