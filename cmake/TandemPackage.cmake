# cpack -G DEB: `tandem` (where there is a simulator) and `tandem-worker`, the program of a device with a service. Both are made
# of the objects that the tests ran.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "tandem <tandem@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_OUTPUT_FILE_PREFIX ${PROJECT_SOURCE_DIR}/out/packages)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
endif()
# By name: dpkg-shlibdeps knows the packages of this machine's architecture alone.
string(JOIN ", " depends libboost-program-options1.74.0 libc6 libgcc-s1 libhwy1 libicu72 libpcre2-8-0
       libsentencepiece0 libssl3 libstdc++6 liburing2)
if(botan_FOUND AND NOT botan_archive)
  string(APPEND depends ", libbotan-2-19")
endif()
if(edit_FOUND)
  string(APPEND depends ", libedit2")
endif()

set(CPACK_COMPONENTS_ALL device)
set(CPACK_DEBIAN_DEVICE_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_DEVICE_PACKAGE_SECTION science)
set(CPACK_DEBIAN_DEVICE_PACKAGE_NAME tandem-worker)
set(CPACK_DEBIAN_DEVICE_PACKAGE_DEPENDS "${depends}, adduser")
set(CPACK_DEBIAN_DEVICE_PACKAGE_SUGGESTS "avahi-daemon, libavahi-client3")  # for --announce
set(CPACK_DEBIAN_DEVICE_DESCRIPTION
    "A device of tandem\n Computes its part of a model for masters, as a service.")
set(scripts ${PROJECT_SOURCE_DIR}/cmake/worker)
set(CPACK_DEBIAN_DEVICE_PACKAGE_CONTROL_EXTRA
    "${scripts}/conffiles;${scripts}/postinst;${scripts}/prerm;${scripts}/postrm")
set(CPACK_DEBIAN_DEVICE_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(device COMPONENT device EXCLUDE_FROM_ALL)
install(FILES ${scripts}/tandem-worker.service DESTINATION /lib/systemd/system ${device})
install(FILES ${scripts}/tandem-worker DESTINATION /etc/default ${device})
install(PROGRAMS ${scripts}/tandem-worker.sh DESTINATION /usr/bin RENAME tandem-worker ${device})
set(documents /usr/share/doc/tandem-worker)  # the service's unit says so
install(FILES README.md docs/reference/commands.md DESTINATION ${documents} ${device})
install(FILES LICENSE DESTINATION ${documents} RENAME copyright ${device})

if(TANDEM_SIM)
  list(APPEND CPACK_COMPONENTS_ALL program)
  set(CPACK_DEBIAN_PROGRAM_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME tandem)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "${depends}, libpugixml1v5, libsimgrid3.32")
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "python3-matplotlib")
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "avahi-daemon, libavahi-client3")  # for discover --browse
  set(documents ${CMAKE_INSTALL_DATADIR}/doc/tandem)
  install(FILES README.md docs/reference/commands.md DESTINATION ${documents} COMPONENT program)
  install(FILES LICENSE DESTINATION ${documents} COMPONENT program RENAME copyright)
endif()
include(CPack)
