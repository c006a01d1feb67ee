#pragma once

// Where a study gets what it is about: the caller knows the folders, a study knows names.

#include <functional>
#include <string>

#include "model/base/csv.hpp"
#include "model/cluster/cluster.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::study {

// Each function throws Error, with the known names, for a name that nothing has.
struct Scenarios {
  // The platform called `name`, as scenarios/platforms has "klonet8".
  std::function<model::Cluster(const std::string& name)> platform;
  // The geometry called `name`, as scenarios/models has "llama-2-7b".
  std::function<model::Transformer(const std::string& name)> model;
  // The numbers of a paper called `name`, as scenarios/experiments has "tpi_table1".
  std::function<model::Csv(const std::string& name)> paper;
  // What data sets' requests are like: scenarios/workloads/lengths.csv.
  std::function<model::Csv()> lengths;
  // A digest of the files that a platform and a model were read from: another digest, another
  // scenario.
  std::function<std::string(const std::string& platform, const std::string& model)> digest;
};

}  // namespace tandem::study
