tandem_bench(exec_transport_bench tandem::exec)
tandem_bench(exec_ledger_bench tandem::exec)
tandem_bench(testbed tandem::exec)
