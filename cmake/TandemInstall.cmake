# Libraries, headers, program and scenarios, and a package that find_package(tandem) finds.

include(CMakePackageConfigHelpers)
get_property(libraries GLOBAL PROPERTY TANDEM_LIBRARIES)
install(TARGETS ${libraries} EXPORT tandem-targets
        FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem)
install(TARGETS tandem RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(EXPORT tandem-targets NAMESPACE tandem::
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
install(DIRECTORY scenarios DESTINATION ${CMAKE_INSTALL_DATADIR}/tandem)
install(DIRECTORY plots DESTINATION ${CMAKE_INSTALL_DATADIR}/tandem)
configure_package_config_file(
  cmake/tandem-config.cmake.in ${PROJECT_BINARY_DIR}/tandem-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tandem-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tandem-config.cmake
              ${PROJECT_BINARY_DIR}/tandem-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
