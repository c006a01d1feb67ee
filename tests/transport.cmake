# Control first: it forks, and a process that has had threads is better not forked.
tandem_tests(
  transport
  SOURCES exec_transport_control_test.cpp exec_transport_connection_test.cpp
          exec_transport_key_test.cpp exec_rejection_log_test.cpp exec_transport_reception_test.cpp exec_transport_tcp_test.cpp
          exec_transport_wire_test.cpp
          exec_ledger_test.cpp
  LIBRARIES tandem::exec)
