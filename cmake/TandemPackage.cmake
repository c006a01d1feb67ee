# cpack -G DEB: `tandem`, or, of a build without the simulator, `tandem-worker` with a service.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "tandem <tandem@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_OUTPUT_FILE_PREFIX ${PROJECT_SOURCE_DIR}/out/packages)
set(CPACK_DEBIAN_PROGRAM_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
endif()
# By name: dpkg-shlibdeps knows the packages of this machine's architecture alone.
string(JOIN ", " depends libboost-program-options1.74.0 libc6 libgcc-s1 libhwy1 libicu72 libpcre2-8-0
       libsentencepiece0 libssl3 libstdc++6 liburing2)
if(TANDEM_SIM)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME tandem)
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "${depends}, libpugixml1v5, libsimgrid3.32")
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "python3-matplotlib")
  set(documents ${CMAKE_INSTALL_DATADIR}/doc/tandem)
else()
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME tandem-worker)
  # A folder of its own, so that `tandem` can be there, too.
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr/lib/tandem-worker)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "${depends}, adduser")
  set(CPACK_DEBIAN_PROGRAM_DESCRIPTION
      "A device of tandem\n Computes its part of a model for masters, as a service.")
  set(scripts ${PROJECT_SOURCE_DIR}/cmake/worker)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA
      "${scripts}/conffiles;${scripts}/postinst;${scripts}/prerm;${scripts}/postrm")
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_STRICT_PERMISSION ON)
  install(FILES ${scripts}/tandem-worker.service DESTINATION /lib/systemd/system COMPONENT program)
  install(FILES ${scripts}/tandem-worker DESTINATION /etc/default COMPONENT program)
  install(PROGRAMS ${scripts}/tandem-worker.sh DESTINATION /usr/bin RENAME tandem-worker
          COMPONENT program)
  set(documents /usr/share/doc/tandem-worker)  # the service's unit says so
endif()
install(FILES README.md docs/cli.md DESTINATION ${documents} COMPONENT program)
install(FILES LICENSE DESTINATION ${documents} COMPONENT program RENAME copyright)
include(CPack)
