#include "exec/transport/wire.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "exec/transport/frame_reader.hpp"
#include "model/graph/announcement.hpp"
#include "tests/exec/transport/transport_pair.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::exec::wire_test {

using exec::test::contains;
using exec::test::error_of;

namespace {

std::vector<Message> one_of_each() {
  Hello hello;
  hello.role = Role::master;
  hello.session = random_session();
  hello.peer = 7;
  hello.sends = true;
  const std::string digest(64, 'a');
  const PlanOffer offer{.sha256 = digest, .plan = "{}", .options = "{\"threads\": 1}"};
  StepBegin step{.step = 3};
  step.batch.segments = {{.sequence = 0, .past = 17, .rows = 2, .sampled = 0},
                         {.sequence = 5, .rows = 1}};
  step.batch.cache = {{.kind = model::CacheOpKind::free, .sequence = 9},
                      {.kind = model::CacheOpKind::fork, .sequence = 5, .from = 0, .positions = 17},
                      {.kind = model::CacheOpKind::truncate, .sequence = 0, .positions = 17}};
  step.tokens = {1, 2, 31999};
  return {hello,
          offer,
          PlanAnswer{.verdict = PlanVerdict::refused, .reason = "no room"},
          BlocksOffer{.blocks = {{model::Digest{std::byte{1}}, model::Digest{std::byte{2}}}, {}}},
          BlocksWanted{.blocks = {{}, {0, 3, 70}}},
          WeightChunk{.bytes = std::vector<std::byte>(33, std::byte{9})},
          Ready{},
          Peers{.addresses = {"", "10.0.0.7:7700", "[::1]:7701"}},
          step,
          Heartbeat{.phase = Phase::slicing,
                    .subject = 3,
                    .ticks = 77,
                    .done = 5,
                    .total = std::uint64_t{1} << 40,
                    .busy_ns = std::uint64_t{3} << 50,
                    .rows = 99,
                    .memory_bytes = std::uint64_t{7} << 33,
                    .behind = true},
          Abort{.reason = "worker 2 is gone"},
          Report{.kind = ReportKind::spans, .last = false, .bytes = "[]"},
          Goodbye{},
          Refusal{.kind = RefusalKind::present, .device = 2, .detail = "10.0.0.9"},
          Inquiry{},
          About{.name = "desk",
                .boot = "b0",
                .network = 4026531840U,
                .processor = "AMD",
                .program = "0.1.0",
                .cores = 8,
                .threads = 4,
                .memory_bytes = std::uint64_t{3} << 30U,
                .disk_bytes = std::uint64_t{1} << 40U},
          ProfileOrder{.model = "{}",
                       .formats = {"q8_0", "q4_k"},
                       .caches = {"f16", "q8_0"},
                       .milliseconds = 25'000,
                       .measure = true},
          LinkOrder{.peer = 2, .name = "phone", .address = "10.0.0.7:7700"},
          ProbeOrder{.kind = ProbeKind::streams,
                     .to = {1, 2},
                     .from = {2},
                     .milliseconds = 300,
                     .walked_bytes = 16U << 20U},
          ProbeAnswer{.fault = "", .readings = {1.25e8, 0.0}}};
}

Message decode(std::span<const std::byte> frame) {
  const FrameHeader header = parse_frame_header(frame.first<kFrameHeaderBytes>());
  return parse_body(header, frame.subspan(kFrameHeaderBytes));
}

// A frame of that type whose body is `body`.
std::vector<std::byte> frame_of(std::uint8_t type, const std::vector<std::uint8_t>& body) {
  std::vector<std::byte> frame(kFrameHeaderBytes);
  frame[0] = static_cast<std::byte>(body.size());
  frame[4] = static_cast<std::byte>(type);
  for (const std::uint8_t byte : body) frame.push_back(static_cast<std::byte>(byte));
  return frame;
}

}  // namespace

TEST_CASE("transport/wire: every message survives the way through bytes") {
  CHECK(one_of_each().size() == std::variant_size_v<Message>);
  for (const Message& message : one_of_each()) {
    CAPTURE(name_of(message));
    CHECK(decode(encode(message)) == message);
  }
}

TEST_CASE("transport/wire: bytes are little-endian and pinned") {
  StepBegin step{.step = 0x01020304};
  step.batch.segments = {{.sequence = 1, .past = 2, .rows = 4, .sampled = 3}};
  step.batch.cache = {{.kind = model::CacheOpKind::fork, .sequence = 1, .from = 6, .positions = 2}};
  const std::vector<std::byte> expected =
      frame_of(9, {4, 3, 2, 1, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0,
                   1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 6, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0});
  CHECK(encode(step) == expected);
}

TEST_CASE("transport/wire: an announcement has the bytes that predictions know of") {
  std::mt19937 random(20261122);
  const auto draw = [&](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  for (int trial = 0; trial < 200; ++trial) {
    StepBegin step{.step = draw(0, 1'000'000)};
    for (int s = draw(1, 40); s > 0; --s)
      step.batch.segments.push_back({.sequence = s, .past = draw(0, 99), .rows = draw(1, 9)});
    for (int c = draw(0, 20); c > 0; --c) {
      step.batch.cache.push_back({.kind = static_cast<model::CacheOpKind>(draw(1, 3)),
                                  .sequence = draw(0, 9),
                                  .from = draw(0, 9),
                                  .positions = draw(0, 99)});
    }
    if (draw(0, 1) == 1) step.tokens.resize(static_cast<std::size_t>(step.batch.rows()));
    if (draw(0, 1) == 1) {
      for (std::size_t s = 0; s < step.batch.segments.size(); ++s)
        step.batch.places.push_back({.owner = draw(0, 3), .partitioned = draw(0, 9) * 100});
    }
    const std::vector<std::byte> frame = encode(step);
    CHECK(static_cast<std::int64_t>(frame.size()) ==
          model::announcement_bytes(step.batch, static_cast<std::int64_t>(step.tokens.size())));
    CHECK(decode(frame) == Message{step});
  }
}

TEST_CASE("transport/wire: a message cut at any byte or with a byte too many is one error") {
  for (const Message& message : one_of_each()) {
    CAPTURE(name_of(message));
    const std::vector<std::byte> frame = encode(message);
    const FrameHeader header = parse_frame_header(std::span(frame).first<kFrameHeaderBytes>());
    const std::span<const std::byte> body = std::span(frame).subspan(kFrameHeaderBytes);
    for (std::size_t size = 0; size < body.size(); ++size) {
      CAPTURE(size);
      // Under the announced length, and with a header that announces the short one: a chunk of
      // weights is then simply a shorter chunk.
      CHECK_THROWS_AS(static_cast<void>(parse_body(header, body.first(size))), Error);
      const FrameHeader shorter{.body_bytes = static_cast<std::uint32_t>(size),
                                .type = header.type};
      if (std::holds_alternative<WeightChunk>(message)) continue;
      CHECK_THROWS_AS(static_cast<void>(parse_body(shorter, body.first(size))), Error);
    }
    if (std::holds_alternative<WeightChunk>(message)) continue;
    std::vector<std::byte> longer(body.begin(), body.end());
    longer.push_back(std::byte{0});
    const FrameHeader more{.body_bytes = header.body_bytes + 1, .type = header.type};
    CHECK_THROWS_AS(static_cast<void>(parse_body(more, longer)), Error);
  }
}

TEST_CASE("transport/wire: lengths above the limit are refused before anything is allocated") {
  for (std::uint8_t type = 1; type <= std::variant_size_v<Message>; ++type) {
    std::array<std::byte, kFrameHeaderBytes> head{};
    head[0] = head[1] = head[2] = head[3] = std::byte{0xff};
    head[4] = static_cast<std::byte>(type);
    CAPTURE(int{type});
    const std::string text = error_of([&] { static_cast<void>(parse_frame_header(head)); });
    CHECK(contains(text, "length is 4294967295 bytes, expected at most"));
  }
}

TEST_CASE("transport/wire: unknown types and a dirty header are refused") {
  for (const int type : {0, 21, 255}) {
    std::array<std::byte, kFrameHeaderBytes> head{};
    head[4] = static_cast<std::byte>(type);
    CHECK_THROWS_AS(static_cast<void>(parse_frame_header(head)), Error);
  }
  std::array<std::byte, kFrameHeaderBytes> head{};
  head[4] = std::byte{10};
  CHECK(parse_frame_header(head).type == 10);
  head[6] = std::byte{1};
  CHECK_THROWS_AS(static_cast<void>(parse_frame_header(head)), Error);
}

TEST_CASE("transport/wire: a Hello of another version names both versions") {
  Hello hello;
  hello.version = kWireVersion + 1;
  const std::vector<std::byte> frame = encode(hello);
  const std::string text = error_of([&] { static_cast<void>(decode(frame)); });
  CHECK(contains(text, "version " + std::to_string(kWireVersion + 1)));
  CHECK(contains(text, "expected " + std::to_string(kWireVersion)));
}

TEST_CASE("transport/wire: values outside their range are refused") {
  struct Case {
    std::string_view what;
    std::vector<std::byte> frame;
  };
  const std::vector<std::uint8_t> minus{255, 255, 255, 255};
  const auto step = [](std::vector<std::uint8_t> past, std::vector<std::uint8_t> rows,
                       std::uint8_t sampled = 1) {
    std::vector<std::uint8_t> body{0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0};
    body.insert(body.end(), past.begin(), past.end());
    body.insert(body.end(), rows.begin(), rows.end());
    body.insert(body.end(), {sampled, 0, 0, 0});
    body.insert(body.end(), 8, 0);
    return frame_of(9, body);
  };
  CHECK_NOTHROW(static_cast<void>(decode(step({0, 0, 0, 0}, {1, 0, 0, 0}))));
  const std::vector<Case> cases{
      {"no segment", frame_of(9, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})},
      {"more segments than bytes", frame_of(9, {0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0})},
      {"negative step", frame_of(9, {255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0})},
      {"negative past", step(minus, {1, 0, 0, 0})},
      {"no rows", step({0, 0, 0, 0}, {0, 0, 0, 0})},
      {"past + rows overflows", step({255, 255, 255, 127}, {1, 0, 0, 0})},
      {"too many rows", step({0, 0, 0, 0}, {255, 255, 255, 127})},
      {"more sampled rows than rows", step({0, 0, 0, 0}, {1, 0, 0, 0}, 2)},
      {"cache operation 4",
       frame_of(9, {0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
                    1, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})},
      {"more cache operations than bytes",
       frame_of(9, {0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                    1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0})},
      {"verdict 4", frame_of(3, {4, 0, 0, 0, 0})},
      {"verdict 0", frame_of(3, {0, 0, 0, 0, 0})},
      {"digest too short", frame_of(4, {1, 0, 0, 0, 'a', 0, 0, 0, 0, 0, 0, 0, 0})},
      {"an address without a port", frame_of(8, {1, 0, 0, 0, 1, 0, 0, 0, 'a'})},
      {"a path for an address", frame_of(8, {1, 0, 0, 0, 4, 0, 0, 0, '/', 'x', ':', '1'})},
      {"more devices than bytes", frame_of(8, {255, 15, 0, 0})},
      {"phase 0", frame_of(10, std::vector<std::uint8_t>(30, 0))},
      {"a subject before nobody",
       [&] {
         std::vector<std::uint8_t> body(30, 0);
         body[0] = 1;
         std::fill(body.begin() + 1, body.begin() + 5, std::uint8_t{254});
         return frame_of(10, body);
       }()},
      {"refusal 4", frame_of(14, {4, 0, 0, 0, 0, 0, 0, 0, 0})},
      {"flag 2", frame_of(12, {1, 2, 0, 0, 0, 0})},
  };
  for (const Case& bad : cases) {
    CAPTURE(bad.what);
    CHECK_THROWS_AS(static_cast<void>(decode(bad.frame)), Error);
  }
}

TEST_CASE("transport/wire: offers of weights are limited, and wanted pieces ascend") {
  const std::size_t most = kMaxOfferedPieces;
  const BlocksWanted full{.blocks = {std::vector<std::uint32_t>(1, 7), {}}};
  CHECK(std::get<BlocksWanted>(decode(encode(full))) == full);
  for (const auto& list : std::vector<std::vector<std::uint32_t>>{{3, 3}, {4, 1}}) {
    CHECK_THROWS_AS(static_cast<void>(decode(encode(BlocksWanted{.blocks = {list}}))), Error);
  }
  BlocksOffer offer;
  offer.blocks.assign(2, std::vector<model::Digest>(most / 2));
  CHECK(std::get<BlocksOffer>(decode(encode(offer))) == offer);
  offer.blocks.emplace_back(1);
  CHECK_THROWS_AS(static_cast<void>(encode(offer)), std::logic_error);
  offer.blocks.assign(kMaxOfferedBlocks + 1, {});
  CHECK_THROWS_AS(static_cast<void>(encode(offer)), std::logic_error);
  // Counts that a peer announces are believed only as far as its bytes and the limits go.
  CHECK_THROWS_AS(static_cast<void>(decode(frame_of(4, {1, 1, 0, 0}))), Error);
  CHECK_THROWS_AS(static_cast<void>(decode(frame_of(4, {1, 0, 0, 0, 0, 0, 1, 0}))), Error);
  CHECK_THROWS_AS(static_cast<void>(decode(frame_of(5, {1, 0, 0, 0, 255, 255, 255, 255}))), Error);
}

TEST_CASE("transport/wire: tokens are none or one a row") {
  StepBegin step;
  step.batch.segments = {{.rows = 3}};
  step.tokens = {1, 2};
  CHECK_THROWS_AS(static_cast<void>(decode(encode(step))), Error);
}

TEST_CASE("transport/wire: one's own messages above a limit are the caller's fault") {
  CHECK_THROWS_AS(
      static_cast<void>(encode(WeightChunk{std::vector<std::byte>(kMaxChunkBytes + 1)})),
      std::logic_error);
  CHECK_THROWS_AS(static_cast<void>(encode(PlanOffer{.plan = std::string(kMaxPlanBytes + 1, ' ')})),
                  std::logic_error);
  const Message cut = decode(encode(Abort{.reason = std::string(5000, 'x')}));
  CHECK(std::get<Abort>(cut).reason.size() == kMaxReasonBytes);
}

TEST_CASE("transport/wire: a peer's text cannot drive the terminal") {
  const Message abort = decode(encode(Abort{.reason = "\x1b]0;x\a"}));
  CHECK(std::get<Abort>(abort).reason == "?]0;x?");
}

TEST_CASE("transport/wire: altered bytes are a message or an error, never more") {
  std::mt19937 random(20240117);
  const std::vector<Message> messages = one_of_each();
  std::size_t refused = 0;
  for (int turn = 0; turn < 20000; ++turn) {
    std::vector<std::byte> frame = encode(messages[random() % messages.size()]);
    for (unsigned i = 0; i <= random() % 3; ++i) {
      frame[random() % frame.size()] = static_cast<std::byte>(random() & 255U);
    }
    refused += error_of([&] { static_cast<void>(decode(frame)); }).empty() ? 0 : 1;
  }
  CHECK(refused > 1000);
}

TEST_CASE("transport/wire: a stream is cut into its messages wherever the pieces end") {
  std::vector<std::byte> stream;
  for (const Message& message : one_of_each()) {
    const std::vector<std::byte> frame = encode(message);
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  for (const std::size_t piece : std::initializer_list<std::size_t>{1, 2, 3, 7, 8, 9, 64, 100000}) {
    CAPTURE(piece);
    FrameReader reader;
    std::vector<std::string_view> names;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      std::span<const std::byte> bytes =
          std::span(stream).subspan(at, std::min(piece, stream.size() - at));
      while (const std::optional<Message> message = reader.next(bytes)) {
        names.push_back(name_of(*message));
      }
      CHECK(bytes.empty());
    }
    REQUIRE(names.size() == std::variant_size_v<Message>);
    CHECK(names.front() == "Hello");
    CHECK(names.back() == "ProbeAnswer");
  }
}

// After a change of the protocol, TANDEM_WRITE_SEEDS=1 writes them anew.
TEST_CASE("transport/wire: the fuzzer's seeds are messages of this version") {
  const std::filesystem::path folder = testing::in_sources("tests/fuzz/corpus/wire");
  if (std::getenv("TANDEM_WRITE_SEEDS") != nullptr) {
    std::ofstream all(folder / "all", std::ios::binary);
    for (const Message& message : one_of_each()) {
      const std::vector<std::byte> frame = encode(message);
      const std::string bytes(reinterpret_cast<const char*>(frame.data()), frame.size());
      std::ofstream(folder / name_of(message), std::ios::binary) << bytes;
      all << bytes;
    }
  }
  std::set<std::string> seen;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    CAPTURE(file.path().string());
    std::ifstream in(file.path(), std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    std::span<const std::byte> bytes = std::as_bytes(std::span(text.data(), text.size()));
    FrameReader reader;
    const std::string fault = error_of([&] {
      while (const auto message = reader.next(bytes)) seen.insert(std::string(name_of(*message)));
    });
    CHECK(fault == "");
    CHECK(bytes.empty());
  }
  CHECK(seen.size() == std::variant_size_v<Message>);
}

TEST_CASE("transport/wire: a data header is tag and length") {
  const DataHeader header{.tag = {.step = 2, .task = -5}, .bytes = 0x0102030405ULL};
  std::array<std::byte, kDataHeaderBytes> bytes{};
  encode_data_header(header, bytes);
  CHECK(bytes[0] == std::byte{2});
  CHECK(bytes[8] == std::byte{5});
  CHECK(parse_data_header(bytes) == header);
}

}  // namespace tandem::exec::wire_test
