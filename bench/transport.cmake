tandem_bench(exec_transport_bench tandem::exec)
