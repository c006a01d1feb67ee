# Discovery first: it forks, and a process that has had threads is better not forked.
tandem_tests(
  discovery
  SOURCES
    exec/discovery/discovery_test.cpp
    exec/discovery/host_list_test.cpp
    exec/discovery/kept_profile_test.cpp
    exec/discovery/link_probe_test.cpp
    exec/discovery/network_inference_test.cpp
    exec/discovery/platform_text_test.cpp
    cli/cli_program.cpp
    cli/discover_command_test.cpp
    cli/pair_command_test.cpp
    exec/pairing/fingerprint_test.cpp
    exec/pairing/pairing_test.cpp
  LIBRARIES tandem::exec Threads::Threads)
target_include_directories(tandem_discovery_tests PRIVATE ${PROJECT_SOURCE_DIR})
add_dependencies(tandem_discovery_tests tandem)
