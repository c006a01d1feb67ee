// Keys and values kept in narrow types: what a device computes with them, keeps and sends.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "model/base/error.hpp"
#include "tests/exec/compute/compute_fixture.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/storage_fixture.hpp"

namespace tandem::exec::cache_type_compute_test {
namespace {

using namespace testing;
using model::Batch;
using model::BufferKind;
using model::CacheFormat;
using model::Range;
using model::Task;
using model::TaskKind;
using model::Transformer;
using model::WireFormat;

constexpr std::int32_t kPrompt = 150;  // three blocks

// `shape`: of whose blocks heads are.
Transformer geometry(CacheFormat cache, CacheFormat shape) {
  Transformer t = testing::with_cache(tiny(), shape);
  t.max_context = 256;
  t.cache = cache;
  return t;
}

Transformer geometry(CacheFormat cache) { return geometry(cache, cache); }

struct Type {
  CacheFormat format;
  double error;  // of logits, relative to the largest
};
constexpr Type kTypes[] = {{CacheFormat::f16, 1e-3}, {CacheFormat::q8_0, 2e-2}};

std::vector<std::int32_t> prompt_of(const Transformer& t) {
  std::mt19937 random(5);
  std::vector<std::int32_t> ids(kPrompt);
  for (std::int32_t& id : ids)
    id = static_cast<std::int32_t>(random() % static_cast<unsigned>(t.vocab));
  return ids;
}

// The last row's logits of the prompt in steps of `chunk` rows.
std::vector<float> logits_of(Compute& device, std::int32_t chunk) {
  const std::vector<std::int32_t> ids = prompt_of(device.transformer());
  device.reset();
  std::vector<std::vector<float>> logits;
  for (std::int32_t at = 0; at < kPrompt; at += chunk) {
    const std::int32_t rows = std::min(chunk, kPrompt - at);
    logits = whole_step(
        device, {{{0, at, rows}}},
        std::span(ids).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(rows)));
  }
  return logits.front();
}

double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0.0;
  double difference = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i])));
    difference = std::max(difference, std::abs(static_cast<double>(a[i] - b[i])));
  }
  return difference / largest;
}

ComputeLimits limits(int threads = 1) {
  return {.max_rows = kPrompt, .cache_positions = 192, .threads = threads};
}

// Weights of which the rows that make keys (or values) are far larger than the others.
struct Large {
  WeightName name;
  std::int32_t layer;
  float factor = 1e7F;
  float operator()(const WeightElement& e) const {
    const float value = RandomWeights{}(e);
    return e.name == name && e.layer == layer ? value * factor : value;
  }
};

}  // namespace

TEST_CASE("exec/cache type: all are near f32, and chunks of a prompt change no bit of it") {
  for (const Type& type : kTypes) {
    CAPTURE(to_string(type.format));
    const Transformer narrow = geometry(type.format);
    Compute exact = make(geometry(CacheFormat::f32, type.format), whole(narrow), limits());
    const std::vector<float> wanted = logits_of(exact, kPrompt);
    for (const int threads : {1, 2}) {
      CAPTURE(threads);
      Compute device = make(narrow, whole(narrow), limits(threads));
      const std::vector<float> logits = logits_of(device, kPrompt);
      const double error = relative_error(wanted, logits);
      CAPTURE(error);
      CHECK(error > 0.0);
      CHECK(error < type.error);
      for (const std::int32_t chunk : {2, 7, 15, 63, 64, 65, 140, 149}) {
        CAPTURE(chunk);
        // Steps of one row and of up to eight add up products in other orders (decision 0004).
        const std::vector<float> got = logits_of(device, chunk);
        const std::int32_t last = kPrompt % chunk == 0 ? chunk : kPrompt % chunk;
        if (last <= 8) {
          CHECK(relative_error(logits, got) < type.error);
        } else {
          CHECK(got == logits);
        }
      }
    }
  }
}

TEST_CASE("exec/cache type: the cache takes its type's memory, all else is as with f32") {
  for (const Type& type : kTypes) {
    CAPTURE(to_string(type.format));
    const Transformer narrow = geometry(type.format);
    const Transformer plain = geometry(CacheFormat::f32, type.format);
    const model::MemoryUse used = make(narrow, whole(narrow), limits()).allocated();
    const model::MemoryUse before = make(plain, whole(plain), limits()).allocated();
    // 3 blocks of 64 positions, keys and values of 2 layers and 2 heads: of 10 numbers, 2 bytes
    // each, or of 32, 34 bytes together.
    const double head = type.format == CacheFormat::f16 ? 10.0 * 2 : 34.0;
    CHECK(used.kv_cache == 3.0 * 64 * 2 * 2 * 2 * head);
    CHECK(before.kv_cache == 3.0 * 64 * 2 * 2 * 2 * 4 * static_cast<double>(plain.head_dim));
    CHECK(used.weights == before.weights);
    CHECK(used.activations == before.activations);
    CHECK(used.buffers == before.buffers);
  }
}

TEST_CASE("exec/cache type: keys and values beyond F16 are as near to f32's as others") {
  const Transformer t = geometry(CacheFormat::f16);
  const Transformer whole_numbers = geometry(CacheFormat::f32);
  const Large large{WeightName::value, 1};
  Compute device(t, synthetic_shard(t, whole(t), large), limits());
  Compute exact(whole_numbers, synthetic_shard(t, whole(t), large), limits());
  const std::vector<float> wanted = logits_of(exact, kPrompt);
  const std::vector<float> got = logits_of(device, kPrompt);
  CHECK(relative_error(wanted, got) < 1e-3);
  CHECK(logits_of(device, kPrompt) == got);
  CHECK(logits_of(device, 65) == got);
  // Scores of such keys have one largest, by far: which one turns by rounding.
  Compute sharp(t, synthetic_shard(t, whole(t), Large{WeightName::key, 1}), limits());
  CHECK_NOTHROW((void)logits_of(sharp, kPrompt));
}

TEST_CASE("exec/cache type: what a type cannot keep is an error with layer and position") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  struct Refused {
    CacheFormat format;
    float factor;
    const char* why;
  };
  for (const Refused& refused :
       {Refused{CacheFormat::f16, kInfinity, "the model's numbers exceed f32"},
        Refused{CacheFormat::q8_0, kInfinity, "or beyond 8319008"},
        Refused{CacheFormat::q8_0, 1e12F, "'--cache-type f16' holds it"}}) {
    for (const auto& [name, what] :
         {std::pair{WeightName::key, "key"}, std::pair{WeightName::value, "value"}}) {
      const Transformer t = geometry(refused.format);
      Compute device(t, synthetic_shard(t, whole(t), Large{name, 1, refused.factor}), limits());
      const std::string error = error_of([&] { (void)logits_of(device, kPrompt); });
      CAPTURE(error);
      CHECK(has(error, "cache type " + std::string(to_string(refused.format)) + ": a " +
                           std::string(what) + " of layer 1 at position 0"));
      CHECK(has(error, "not finite"));
      CHECK(has(error, refused.why));
    }
  }
}

TEST_CASE("exec/cache type: keys and values sent on are the same bytes, at whoever has them") {
  const Batch batch{{{0, 0, kPrompt}}};
  for (const auto& [type, wire] : [] {
         std::vector<std::pair<CacheFormat, WireFormat>> all;
         for (const Type& type : kTypes) {
           for (const WireFormat wire : model::kWireFormats) all.emplace_back(type.format, wire);
         }
         return all;
       }()) {
    CAPTURE(to_string(type));
    CAPTURE(to_string(wire));
    const Transformer t = geometry(type);
    Compute first = make(t, whole(t), limits());
    Compute second = make(t, whole(t), limits());
    (void)logits_of(first, kPrompt);
    second.begin(batch);
    Task task{.kind = TaskKind::transfer,
              .layer = 1,
              .rows = {0, kPrompt},
              .columns = {0, static_cast<std::int32_t>(2 * t.kv_heads * t.head_dim)},
              .input = {BufferKind::key_value},
              .output = {BufferKind::key_value}};
    task.wire = wire;
    const auto captured = [&](Compute& device, WireFormat format) {
      Task sent = task;
      sent.wire = format;
      std::vector<std::byte> bytes(static_cast<std::size_t>(model::payload_bytes(sent)));
      device.capture(batch, sent, bytes);
      return bytes;
    };
    const std::vector<std::byte> before = captured(first, WireFormat::f32);
    const std::vector<std::byte> bytes = captured(first, wire);
    second.deliver(batch, task, bytes);
    const std::vector<std::byte> kept = captured(first, WireFormat::f32);
    CHECK(captured(second, WireFormat::f32) == kept);
    CHECK(captured(second, wire) == bytes);
    CHECK(captured(first, wire) == bytes);
    CHECK(captured(first, WireFormat::f32) == kept);
    // Numbers lose nothing in types that have them.
    const bool lossless = wire == WireFormat::f32 || to_string(wire) == to_string(type);
    CHECK((kept == before) == lossless);
  }
}

}  // namespace tandem::exec::cache_type_compute_test
