#include "planner/strategy/common/sharding_text.hpp"

#include "model/base/error.hpp"

namespace tandem::planner {

std::string_view weights_text(const Sharding& sharding) {
  switch (sharding.weights) {
    case Weights::at_master:
      return "at the master";
    case Weights::heads_and_columns:
      return "heads and columns";
    case Weights::layers:
      return "layers";
    case Weights::replicated:
      return sharding.gather_weights ? "replicated, or gathered" : "replicated";
  }
  require(false, "unknown kind of weights");
  return {};
}

std::string_view prefill_text(const Sharding& sharding) {
  switch (sharding.prefill) {
    case PrefillRows::whole:
      return "whole";
    case PrefillRows::split:
      return "split";
    case PrefillRows::split_between_halves:
      return "split between halves";
    case PrefillRows::with_cache:
      return "with the cache";
  }
  require(false, "unknown rows of a prompt");
  return {};
}

std::string_view cache_text(const Sharding& sharding) {
  switch (sharding.cache) {
    case KvCache::at_master:
      return "at the master";
    case KvCache::by_heads:
      return "by heads";
    case KvCache::by_layers:
      return "by layers";
    case KvCache::by_position:
      return "by position";
  }
  require(false, "unknown cache");
  return {};
}

std::string_view decode_text(const Sharding& sharding) {
  switch (sharding.decode) {
    case Decode::master:
      return "master";
    case Decode::tensor:
      return "tensor";
    case Decode::pipeline:
      return "pipeline";
    case Decode::owner:
      return "owner";
  }
  require(false, "unknown devices of new tokens");
  return {};
}

std::string_view exchange_text(const Sharding& sharding) {
  if (sharding.is_local()) return "none";
  if (sharding.splits_layers()) return "1 message a stage";
  switch (sharding.prefill) {
    case PrefillRows::whole:
      return "2 all-reduces";
    case PrefillRows::split_between_halves:
      return "2 all-gathers, 2 reduce-scatters";
    case PrefillRows::with_cache:
      return "queries out, results and softmax back";
    case PrefillRows::split:
      return sharding.exchanges_rows() ? "2 all-to-alls" : "all-gather of keys and values";
  }
  require(false, "unknown rows of a prompt");
  return {};
}

}  // namespace tandem::planner
