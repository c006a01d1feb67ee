#pragma once

// The library: plans, predicts and runs distributed LLM inference.
//
//   const tandem::Model model = tandem::Model::read("tinyllama-1.1b");      // Hugging Face folder
//   const tandem::Platform home = tandem::Platform::read("home4.xml");
//   const auto answer = tandem::make_plan(model, home, {.prompt_tokens = 64, .new_tokens = 32});
//   const tandem::Plan& plan = std::get<tandem::Plan>(answer);              // or
//   tandem::Infeasible std::cout << tandem::predict(plan).ttft_s() << " s to the first token\n";
//   const tandem::Run run = tandem::run(
//       plan, {.weights = "tinyllama-1.1b", .prompt = "Once upon a time",
//              .devices = tandem::Workers{.hosts_file = "hosts.txt", .key_file = "key"}});
//   std::cout << run.text << '\n';
//
// Errors: a wrong file, value or peer is a std::runtime_error, whose message is one line with
// subject, value, expected value and remedy. A call that breaks what a header demands is a
// std::logic_error. An infeasible request is no error, but a value (tandem::Infeasible).
//
// Files have the formats of the program `tandem`, and can be exchanged with it: plans, results,
// profiles, platforms, keys. Values may be copied and used by several threads, as long as each
// has copies of its own.

#include <tandem/model.hpp>
#include <tandem/plan.hpp>
#include <tandem/platform.hpp>
#include <tandem/prediction.hpp>
#include <tandem/result.hpp>
#include <tandem/run.hpp>
#include <tandem/version.hpp>
#include <tandem/worker.hpp>
