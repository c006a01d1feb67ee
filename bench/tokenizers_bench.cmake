tandem_bench(exec_tokenizer_bench tandem::exec)
