#include "exec/profiling/profile_rig.hpp"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

#include "exec/profiling/synthetic_shard.hpp"
#include "model/base/statistics.hpp"
#include "model/report/trace.hpp"

namespace tandem::exec {

namespace {

using model::BufferKind;
using model::BufferRef;
using model::Range;
using model::Task;
using model::TaskKind;
using model::WeightBlock;

constexpr BufferRef kHidden{BufferKind::hidden};
constexpr BufferRef kNormed{BufferKind::normed};

// Payloads lie in so many floats, up to so many of them: large ones in no second-level cache, as
// those that another thread has received or sent; small ones in one, as the computing thread's own.
constexpr std::size_t kSlots = std::size_t{6} << 20U;
constexpr std::size_t kMostSlots = 64;

// Values of the order of real weights, the same after kPatternRows rows.
constexpr std::int32_t kPatternRows = 16;
float pattern(const WeightElement& e) {
  return 0.01F * static_cast<float>((e.row * 31 + e.column * 17) % 16 - 8);
}

std::int32_t fraction_of(std::int64_t whole, double fraction) {
  return static_cast<std::int32_t>(
      std::clamp<std::int64_t>(std::llround(static_cast<double>(whole) * fraction), 1, whole));
}

// Heads in whole groups of a key/value head, as plans share them, or a part of one; columns in
// whole blocks of the weights' format.
model::Share share_of(const model::Transformer& t, double fraction, std::int64_t layers) {
  const std::int64_t block = t.column_block();
  const auto group = static_cast<std::int32_t>(t.group());
  std::int32_t heads = fraction_of(t.heads, fraction);
  if (heads > group) heads = group * fraction_of(t.heads / group, fraction);
  return {{0, static_cast<std::int32_t>(layers)},
          {0, heads},
          {0, static_cast<std::int32_t>(block * fraction_of(t.intermediate / block, fraction))},
          false,
          false};
}

std::int64_t layers_for(const model::Transformer& t, double fraction, double bytes) {
  const double one = model::weight_bytes(t, share_of(t, fraction, 1));
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(bytes / one)), 2, 256);
}

model::Transformer with_layers(const model::Transformer& t, std::int64_t layers) {
  return t.first_layers(layers);
}

// Heads that dropping is measured with: of whole key/value heads. None where it is not done.
Range dropping_heads(const model::Transformer& t, const model::Share& share) {
  if (t.architecture().mask != model::Mask::causal) return {};
  const auto group = static_cast<std::int32_t>(t.group());
  return {0, share.heads.size() / group * group};
}

constexpr std::int8_t kList = 1;  // and the slot of what is gathered by it

// Those of a share, and of drop_half.
std::vector<model::BufferDeclaration> buffers_of(const model::Transformer& t,
                                                 const model::Share& share) {
  std::vector<model::BufferDeclaration> buffers = model::share_buffers(t, share, false);
  if (dropping_heads(t, share).empty()) return buffers;
  const std::int64_t heads = share.heads.size();
  const std::int64_t kv = t.kv_heads_for(share.heads).size();
  const auto add = [&](BufferRef name, std::int64_t columns,
                       model::RowCount rows = model::RowCount::rows) {
    buffers.push_back({.name = name, .rows = rows, .columns = columns});
  };
  for (const std::int8_t slot : {std::int8_t{0}, kList}) {
    add({BufferKind::softmax, slot}, 2 * heads);
    add({BufferKind::scores, slot}, kv);
  }
  add({BufferKind::query, kList}, heads * t.head_dim);
  add({BufferKind::attention, kList}, heads * t.head_dim);
  add({BufferKind::gathered, kList}, 2 * kv * t.head_dim);
  add({BufferKind::packed_kv}, 2 * t.head_dim, model::RowCount::positions);
  buffers.push_back(
      {.name = {BufferKind::selection, kList}, .columns = kv, .format = model::ElementFormat::i32});
  return buffers;
}

void fill(Compute& compute, std::int32_t rows, std::int64_t hidden) {
  std::vector<float> x(static_cast<std::size_t>(rows * hidden));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.1F * static_cast<float>(i % 23) - 1.1F;
  compute.write_rows(kHidden, {0, rows}, {0, static_cast<std::int32_t>(hidden)}, x);
}

template <class Body>
double timed(const ProfileClock& clock, const Body& body) {
  const double start = clock.now();
  body();
  return std::max(clock.now() - start - clock.cost(), 1e-9);
}

}  // namespace

ProfileClock::ProfileClock(int threads) : thread_time_(threads == 1) {
  std::vector<double> costs;
  for (int i = 0; i < 101; ++i) {
    const double start = now();
    costs.push_back(now() - start);
  }
  cost_ = model::quantile(std::move(costs), 0.5);
}

double ProfileClock::now() const {
  if (!thread_time_) {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(since).count();
  }
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

namespace {

ComputeLimits rig_limits(const model::Transformer& t, const model::Share& share,
                         const ProfileRig::Options& options) {
  return {.max_rows = options.max_rows,
          .cache_positions = std::max<std::int64_t>(options.max_positions, model::kCacheBlock),
          .buffers = buffers_of(t, share),
          .threads = options.threads,
          .kernels = options.kernels};
}

std::size_t slot_floats(const model::Transformer& t, std::int32_t rows) {
  return std::max(kSlots, 2 * static_cast<std::size_t>(rows * t.hidden));
}

model::Transformer rig_model(const ProfileRig::Options& options) {
  return with_layers(options.transformer,
                     layers_for(options.transformer, options.fraction, options.layer_bytes));
}

// What weights and buffers take.
double allocated_bytes(const model::Transformer& t, const model::Share& share,
                       const ComputeLimits& limits) {
  return model::weight_bytes(t, share) +
         model::memory_use({.buffers = limits.buffers}, limits.extents()).total();
}

}  // namespace

ProfileRig::ProfileRig(const Options& options)
    : transformer_(rig_model(options)),
      share_(share_of(transformer_, options.fraction, transformer_.layers)),
      shard_(synthetic_shard(transformer_, share_, pattern, kPatternRows)),
      limits_(rig_limits(transformer_, share_, options)),
      slots_(slot_floats(transformer_, options.max_rows)) {
  set_threads(options.threads);
}

double ProfileRig::memory_bytes(const Options& options) {
  const model::Transformer t = rig_model(options);
  const model::Share share = share_of(t, options.fraction, t.layers);
  return allocated_bytes(t, share, rig_limits(t, share, options)) +
         static_cast<double>(sizeof(float) * slot_floats(t, options.max_rows));
}

void ProfileRig::set_threads(int threads) {
  limits_.threads = threads;
  compute_.reset();  // the old memory first
  compute_.emplace(transformer_, shard_.alias(), limits_);
}

void ProfileRig::run(const model::Batch& batch, const Task& task, const ProfileClock& clock,
                     ProfileLog& log) {
  const double seconds = timed(clock, [&] { compute_->execute(batch, task); });
  log.add(task.kind, model::work_of(transformer_, batch, task), seconds);
}

std::span<float> ProfileRig::slot(std::size_t floats, std::size_t index) {
  const std::size_t places = std::min(kMostSlots, slots_.size() / floats);
  return std::span(slots_).subspan(index % places * floats, floats);
}

void ProfileRig::copy(std::int32_t rows, const ProfileClock& clock, ProfileLog& log) {
  const Range columns{0, static_cast<std::int32_t>(transformer_.hidden)};
  const auto floats = static_cast<std::size_t>(rows * transformer_.hidden);
  const std::span<float> payload = slot(floats, next_slot_);
  // What arrives has not just been written by this thread, as what it captures has: the slot that
  // was written longest ago.
  const std::span<float> arrived = slot(floats, next_slot_ + 1);
  ++next_slot_;
  const BufferRef partial{BufferKind::partial};
  const model::Work work =
      model::copy_work(model::plain_copy(model::Bytes{static_cast<double>(payload.size_bytes())}));
  const Range all{0, rows};
  log.add(TaskKind::capture, work,
          timed(clock, [&] { compute_->read_rows(partial, all, columns, payload); }));
  log.add(TaskKind::deliver, work,
          timed(clock, [&] { compute_->write_rows(partial, all, columns, arrived); }));
}

void ProfileRig::drop_half(const model::Batch& batch, std::int32_t layer, std::int32_t rows,
                           const ProfileClock& clock, ProfileLog& log) {
  const Range all{0, rows};
  const Range kept{0, (rows + 1) / 2};
  const auto make = [&](TaskKind kind, BufferRef input, BufferRef output, Range of, Range keys,
                        std::int8_t list) {
    return Task{.kind = kind,
                .layer = layer,
                .rows = of,
                .columns = dropping_heads(transformer_, share_),
                .keys = keys,
                .statistics = kind == TaskKind::attend,
                .selection = list,
                .input = input,
                .output = output};
  };
  const BufferRef query{BufferKind::query};
  const BufferRef attention{BufferKind::attention};
  const BufferRef scores{BufferKind::scores};
  const BufferRef own_query{BufferKind::query, kList};
  const BufferRef own_attention{BufferKind::attention, kList};
  // The softmax that the others read; attention itself has been measured.
  compute_->execute(batch, make(TaskKind::attend, query, attention, all, all, 0));
  run(batch, make(TaskKind::score, query, scores, all, all, 0), clock, log);
  run(batch, make(TaskKind::select, scores, {BufferKind::selection, kList}, all, kept, 0), clock,
      log);
  run(batch, make(TaskKind::gather, query, own_query, kept, {}, kList), clock, log);
  run(batch,
      make(TaskKind::gather, {BufferKind::key_value}, {BufferKind::gathered, kList}, kept, {},
           kList),
      clock, log);
  compute_->execute(batch, make(TaskKind::attend, own_query, own_attention, kept, kept, kList));
  run(batch, make(TaskKind::score, own_query, {BufferKind::scores, kList}, kept, kept, kList),
      clock, log);
  run(batch, make(TaskKind::merge, own_attention, attention, kept, {}, kList), clock, log);
}

void ProfileRig::step(std::int32_t rows, std::int32_t past, std::int32_t layers,
                      const ProfileClock& clock, ProfileLog& log) {
  fill(*compute_, rows, transformer_.hidden);
  const model::Batch batch{{{0, past, rows}}};
  compute_->reset();
  compute_->pretend(0, past);
  compute_->begin(batch);
  const Range hidden{0, static_cast<std::int32_t>(transformer_.hidden)};
  const BufferRef query{BufferKind::query};
  const BufferRef attention{BufferKind::attention};
  const BufferRef activation{BufferKind::activation};
  const BufferRef partial{BufferKind::partial};
  const BufferRef normed = transformer_.architecture().post_norm() ? kHidden : kNormed;
  std::int32_t layer = next_layer_;
  for (std::int32_t i = 0; i < std::min(layers, share_.layers.size()); ++i) {
    layer = next_layer_;
    next_layer_ = (layer + 1) % share_.layers.size();
    const auto task = [&](TaskKind kind, Range columns, BufferRef input, BufferRef output,
                          WeightBlock block = WeightBlock::none) {
      run(batch,
          {.kind = kind,
           .block = block,
           .layer = layer,
           .rows = {0, rows},
           .columns = columns,
           .input = input,
           .output = output},
          clock, log);
    };
    task(TaskKind::norm, hidden, kHidden, normed, WeightBlock::attention);
    task(TaskKind::project_qkv, share_.heads, normed, query);
    task(TaskKind::attend, share_.heads, query, attention);
    task(TaskKind::project_out, share_.heads, attention, partial);
    copy(rows, clock, log);
    task(TaskKind::add, hidden, partial, kHidden);
    task(TaskKind::norm, hidden, kHidden, normed, WeightBlock::ffn);
    task(TaskKind::ffn_up, share_.columns, normed, activation);
    task(TaskKind::ffn_down, share_.columns, activation, partial);
    copy(rows, clock, log);
    task(TaskKind::add, hidden, partial, kHidden);
  }
  if (rows > 1 && past == 0 && !dropping_heads(transformer_, share_).empty())
    drop_half(batch, layer, rows, clock, log);
}

namespace {

// An encoder has no LM head, but a profile says what every task takes, of whatever model: then the
// head is that of a decoder with the same kind of norm.
model::Transformer with_head(model::Transformer t, std::int64_t vocab) {
  t.vocab = vocab;
  if (!t.architecture().generates()) {
    t.family = model::Family::gpt2;
    t.token_types = 0;
  }
  return t;
}

model::Share head_share() { return {{0, 0}, {0, 0}, {0, 0}, true, true}; }

ComputeLimits head_limits(const model::Transformer& t, std::int32_t max_rows,
                          std::int32_t sequences, KernelSet kernels) {
  return {.max_rows = max_rows,
          .cache_positions = 1,
          .sequences = sequences,
          .buffers = model::share_buffers(t, head_share(), false),
          .kernels = kernels};
}

}  // namespace

ProfileHead::ProfileHead(const model::Transformer& transformer, std::int64_t vocab,
                         std::int32_t max_rows, std::int32_t sequences, int threads,
                         KernelSet kernels)
    : transformer_(with_head(transformer, vocab)),
      sequences_(sequences),
      shard_(synthetic_shard(transformer_, head_share(), pattern, kPatternRows)),
      limits_(head_limits(transformer_, max_rows, sequences, kernels)),
      sampler_(SamplingOptions{}) {
  set_threads(threads);
}

void ProfileHead::set_threads(int threads) {
  limits_.threads = threads;
  compute_.reset();
  compute_.emplace(transformer_, shard_.alias(), limits_);
}

double ProfileHead::memory_bytes(const model::Transformer& transformer, std::int64_t vocab,
                                 std::int32_t max_rows, std::int32_t sequences) {
  const model::Transformer t = with_head(transformer, vocab);
  return allocated_bytes(t, head_share(),
                         head_limits(t, max_rows, sequences, default_kernel_set()));
}

void ProfileHead::step(std::int32_t rows, const ProfileClock& clock, ProfileLog& log) {
  std::vector<std::int32_t> ids;
  model::Batch batch;
  for (std::int32_t row = 0; row < rows; ++row) {
    ids.push_back(static_cast<std::int32_t>((std::int64_t{row} * 7919) % transformer_.vocab));
    batch.segments.push_back({row % sequences_, 0, 1});
  }
  compute_->set_tokens(ids);
  const Range vocab{0, static_cast<std::int32_t>(transformer_.vocab)};
  const auto run = [&](const Task& task) {
    const double seconds = timed(clock, [&] { compute_->execute(batch, task); });
    log.add(task.kind, model::work_of(transformer_, batch, task), seconds);
  };
  run({.kind = TaskKind::embed, .rows = {0, rows}, .output = kHidden});
  if (rows > sequences_) return;
  run({.kind = TaskKind::norm,
       .block = WeightBlock::head,
       .rows = {0, rows},
       .input = kHidden,
       .output = kNormed});
  run({.kind = TaskKind::lm_head,
       .rows = {0, rows},
       .columns = vocab,
       .input = kNormed,
       .output = {BufferKind::logits}});
  const Task sample{.kind = TaskKind::sample, .rows = {0, 1}, .columns = vocab};
  log.add(TaskKind::sample, model::work_of(transformer_, batch, sample),
          timed(clock, [&] { (void)sampler_.sample(compute_->logits()); }));
}

namespace {

// The part of a layer, of `fraction` of it, that is no larger than what is measured at most.
// Elements, not bytes: they determine how long a prompt takes.
double of_layer(model::Transformer t, double fraction) {
  constexpr double kMostElements = 32.0 * 1024 * 1024;
  t.formats = model::WeightFormats();
  const double elements = model::weight_bytes(t, share_of(t, 1.0, 1)) / sizeof(float);
  return fraction * std::min(1.0, kMostElements / elements);
}

std::int64_t of_vocab(const model::Transformer& t, double fraction) {
  constexpr double kMostElements = 16.0 * 1024 * 1024;
  const double rows =
      std::min(static_cast<double>(t.vocab), kMostElements / static_cast<double>(t.hidden));
  return std::max<std::int64_t>(1, std::llround(fraction * rows));
}

constexpr std::int32_t kSequences = 16;  // whose logits are computed at once

ProfileRig::Options rig_options(const model::Transformer& transformer, double fraction,
                                const ProfilePart::Sizes& sizes) {
  return {.transformer = transformer,
          .fraction = of_layer(transformer, fraction),
          .layer_bytes = sizes.layer_bytes,
          .max_rows = sizes.max_rows,
          .max_positions = sizes.max_positions,
          .threads = sizes.threads,
          .kernels = sizes.kernels};
}

}  // namespace

ProfilePart::ProfilePart(const model::Transformer& transformer, double fraction, const Sizes& sizes)
    : rig_(rig_options(transformer, fraction, sizes)),
      head_(transformer, of_vocab(transformer, fraction), sizes.max_rows,
            std::min(sizes.max_rows, kSequences), sizes.threads, sizes.kernels) {}

double ProfilePart::memory_bytes(const model::Transformer& transformer, double fraction,
                                 const Sizes& sizes) {
  return ProfileRig::memory_bytes(rig_options(transformer, fraction, sizes)) +
         ProfileHead::memory_bytes(transformer, of_vocab(transformer, fraction), sizes.max_rows,
                                   std::min(sizes.max_rows, kSequences));
}

void ProfilePart::set_threads(int threads) {
  rig_.set_threads(threads);
  head_.set_threads(threads);
}

void ProfilePart::step(std::int32_t rows, std::int32_t past, const ProfileClock& clock,
                       ProfileLog& log) {
  const std::int32_t layers = rows > kSequences ? 1 : std::numeric_limits<std::int32_t>::max();
  rig_.step(rows, past, layers, clock, log);
  head_.step(rows, clock, log);
  // A prompt alone needs logits of one row. Those of many sequences are measured with it, so that
  // they are known also where there is no time for finer sizes.
  if (rows > head_.sequences()) head_.step(head_.sequences(), clock, log);
}

double ProfilePart::reference_s(const ProfileClock& clock) {
  constexpr double kEnough = 4e-3;
  constexpr int kMost = 100;
  double sum = 0.0;
  int count = 0;
  while (count < kMost && (count < 2 || sum < kEnough)) {
    ProfileLog log;
    rig_.step(kNewTokenRows, 0, 1, clock, log);
    sum += log.total_s();
    ++count;
  }
  return sum / count;
}

}  // namespace tandem::exec
