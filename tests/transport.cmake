# Control first: it forks, and a process that has had threads is better not forked.
tandem_tests(
  transport
  SOURCES exec/transport/control_test.cpp exec/transport/connection_test.cpp
          exec/transport/key_test.cpp exec/session/rejection_log_test.cpp exec/transport/reception_test.cpp exec/transport/tcp_transport_test.cpp
          exec/transport/wire_test.cpp
          exec/emulation/ledger_test.cpp
          exec/testbed/link_schedule_test.cpp exec/testbed/packet_test.cpp exec/testbed/testbed_facts_test.cpp
  LIBRARIES tandem::exec)
