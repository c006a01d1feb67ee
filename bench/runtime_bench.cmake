tandem_bench(exec_runtime_bench tandem::exec)
