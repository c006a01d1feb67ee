#pragma once

// A study's source of scenarios by name: the caller knows the folders.

#include <functional>
#include <string>

#include "model/base/csv.hpp"
#include "model/cluster/cluster.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::study {

// Each function throws Error, with the known names, for an unknown name.
struct Scenarios {
  // Returns the platform `name`, such as "klonet8" of scenarios/platforms.
  std::function<model::Cluster(const std::string& name)> platform;
  // Returns the geometry `name`, such as "llama-2-7b" of scenarios/models.
  std::function<model::Transformer(const std::string& name)> model;
  // Returns a paper's numbers `name`, such as "tpi_table1" of scenarios/experiments.
  std::function<model::Csv(const std::string& name)> paper;
  // Returns the request lengths of data sets: scenarios/workloads/lengths.csv.
  std::function<model::Csv()> lengths;
  // Returns a digest of the files of a platform and a model, which identifies the scenario.
  std::function<std::string(const std::string& platform, const std::string& model)> digest;
};

}  // namespace tandem::study
