tandem_bench(model_analytic_bench tandem::model)
