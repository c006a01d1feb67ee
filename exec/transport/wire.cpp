#include "exec/transport/wire.hpp"

#include <algorithm>
#include <limits>
#include <random>
#include <type_traits>
#include <utility>

#include "exec/transport/endpoint.hpp"
#include "exec/transport/tls_record.hpp"
#include "exec/transport/version_error.hpp"
#include "exec/transport/wire_discovery.hpp"
#include "exec/transport/wire_fields.hpp"
#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"
#include "model/graph/announcement.hpp"

namespace tandem::exec {
namespace {

using wire::kDigestBytes;
using wire::load;
using wire::Reader;
using wire::store;
using wire::Writer;

constexpr std::string_view kWireMagic = "tandem\r\n";

// One overload pair a message: write() and read(). `read` checks every limit.

void write(Writer& w, const Hello& m) {
  w.raw(kWireMagic);
  w.u32(m.version);
  w.u8(static_cast<std::uint8_t>(m.role));
  w.u8(static_cast<std::uint8_t>(m.purpose));
  w.raw(m.session);
  w.i32(m.device);
  w.i32(m.peer);
  w.u8(m.sends ? 1 : 0);
}
void read(Reader& r, Hello& m) {
  const std::span<const std::byte> magic = r.take(kWireMagic.size());
  if (!std::equal(magic.begin(), magic.end(), std::as_bytes(std::span(kWireMagic)).begin())) {
    r.fail("first word", "unknown", "tandem's");
  }
  m.version = r.u32();
  if (m.version != kWireVersion) {
    throw VersionError("speaks version " + std::to_string(m.version) +
                       " of tandem's protocol, expected " + std::to_string(kWireVersion) +
                       "; install the same tandem on every device");
  }
  m.role = r.choice("role", Role::worker);
  m.purpose = r.choice("purpose", Purpose::channel);
  std::ranges::copy(r.take(m.session.size()), m.session.begin());
  m.device = r.natural("device");
  m.peer = r.natural("peer");
  m.sends = r.flag("direction");
}

void write(Writer& w, const PlanOffer& m) {
  w.text(m.sha256, kDigestBytes);
  w.text(m.options, kMaxOptionsBytes);
  w.text(m.plan, kMaxPlanBytes);
}
void read(Reader& r, PlanOffer& m) {
  m.sha256 = r.digest("plan digest");
  m.options = r.text("options", kMaxOptionsBytes);
  m.plan = r.text("plan", kMaxPlanBytes);
}

void write(Writer& w, const PlanAnswer& m) {
  w.u8(static_cast<std::uint8_t>(m.verdict));
  w.text(std::string_view(m.reason).substr(0, kMaxReasonBytes), kMaxReasonBytes);
}
void read(Reader& r, PlanAnswer& m) {
  m.verdict = r.choice("verdict", PlanVerdict::refused);
  m.reason = model::printable(r.text("reason", kMaxReasonBytes), kMaxReasonBytes);
}

// Lists of lists: the elements of all of them together are limited.
template <class Element, class WriteElement>
void write_lists(Writer& w, const std::vector<std::vector<Element>>& lists,
                 const WriteElement& write_element) {
  std::size_t elements = 0;
  for (const auto& list : lists) elements += list.size();
  require(lists.size() <= kMaxOfferedBlocks && elements <= kMaxOfferedPieces,
          "wire: more blocks or pieces than a message may hold");
  w.u32(static_cast<std::uint32_t>(lists.size()));
  for (const auto& list : lists) {
    w.u32(static_cast<std::uint32_t>(list.size()));
    for (const Element& element : list) write_element(element);
  }
}
template <class Element, class ReadElement>
void read_lists(Reader& r, std::vector<std::vector<Element>>& lists, std::size_t element_bytes,
                const ReadElement& read_element) {
  const std::size_t count = r.count("blocks", kMaxOfferedBlocks, 4);
  lists.reserve(count);
  std::size_t left = kMaxOfferedPieces;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t elements = r.count("pieces", left, element_bytes);
    left -= elements;
    std::vector<Element>& list = lists.emplace_back();
    list.reserve(elements);
    for (std::size_t e = 0; e < elements; ++e) list.push_back(read_element(list));
  }
}

void write(Writer& w, const BlocksOffer& m) {
  write_lists(w, m.blocks, [&](const model::Digest& digest) { w.raw(digest); });
}
void read(Reader& r, BlocksOffer& m) {
  read_lists(r, m.blocks, sizeof(model::Digest), [&](const std::vector<model::Digest>&) {
    model::Digest digest{};
    std::ranges::copy(r.take(digest.size()), digest.begin());
    return digest;
  });
}

void write(Writer& w, const BlocksWanted& m) {
  write_lists(w, m.blocks, [&](std::uint32_t piece) { w.u32(piece); });
}
void read(Reader& r, BlocksWanted& m) {
  read_lists(r, m.blocks, sizeof(std::uint32_t), [&](const std::vector<std::uint32_t>& before) {
    const std::uint32_t piece = r.u32();
    if (!before.empty() && piece <= before.back()) {
      r.fail("piece", std::to_string(piece), "one after " + std::to_string(before.back()));
    }
    return piece;
  });
}

void write(Writer& w, const WeightChunk& m) {
  require(m.bytes.size() <= kMaxChunkBytes, "wire: weights above their limit");
  w.raw(m.bytes);
}
void read(Reader& r, WeightChunk& m) {
  const std::span<const std::byte> bytes = r.rest();
  m.bytes.assign(bytes.begin(), bytes.end());
}

void write(Writer&, const Ready&) {}
void read(Reader&, Ready&) {}
void write(Writer&, const Goodbye&) {}
void read(Reader&, Goodbye&) {}

void write(Writer& w, const Heartbeat& m) {
  w.u8(static_cast<std::uint8_t>(m.phase));
  w.i32(m.subject);
  w.u64(m.ticks);
  w.u64(m.done);
  w.u64(m.total);
  w.u64(m.busy_ns);
  w.u64(m.rows);
  w.u64(m.memory_bytes);
  w.u8(m.behind ? 1 : 0);
}
void read(Reader& r, Heartbeat& m) {
  m.phase = r.choice("phase", Phase::measuring);
  m.subject = r.i32();
  if (m.subject < -1) r.fail("subject", std::to_string(m.subject), "a device, or -1");
  m.ticks = r.u64();
  m.done = r.u64();
  m.total = r.u64();
  m.busy_ns = r.u64();
  m.rows = r.u64();
  m.memory_bytes = r.u64();
  m.behind = r.flag("behind");
}

void write(Writer& w, const Refusal& m) {
  w.u8(static_cast<std::uint8_t>(m.kind));
  w.i32(m.device);
  w.text(std::string_view(m.detail).substr(0, kMaxDetailBytes), kMaxDetailBytes);
}
void read(Reader& r, Refusal& m) {
  m.kind = r.choice("kind of refusal", RefusalKind::unexpected);
  m.device = r.natural("device");
  m.detail = model::printable(r.text("detail", kMaxDetailBytes), kMaxDetailBytes);
}

void write(Writer& w, const Peers& m) {
  require(m.addresses.size() <= kMaxDevices, "wire: too many devices");
  w.u32(static_cast<std::uint32_t>(m.addresses.size()));
  for (const std::string& address : m.addresses) w.text(address, kMaxAddressBytes);
}
void read(Reader& r, Peers& m) {
  const std::size_t count = r.count("devices", kMaxDevices, 4);
  m.addresses.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    m.addresses.push_back(r.text("address", kMaxAddressBytes));
    if (!m.addresses.back().empty()) {
      static_cast<void>(parse_endpoint(m.addresses.back(), "message Peers: address"));
    }
  }
}

constexpr auto kSegmentBytes = static_cast<std::size_t>(model::kAnnouncedSegmentBytes);
constexpr auto kPlaceBytes = static_cast<std::size_t>(model::kAnnouncedPlaceBytes);
constexpr auto kCacheOpBytes = static_cast<std::size_t>(model::kAnnouncedCacheOpBytes);

void write(Writer& w, const StepBegin& m) {
  require(m.batch.segments.size() <= kMaxSegments && m.batch.cache.size() <= kMaxCacheOps &&
              m.tokens.size() <= kMaxTokens,
          "wire: step above its limits");
  w.i32(m.step);
  w.u32(static_cast<std::uint32_t>(m.batch.segments.size()));
  for (const model::Segment& segment : m.batch.segments) {
    w.i32(segment.sequence);
    w.i32(segment.past);
    w.i32(segment.rows);
    w.i32(segment.sampled);
  }
  w.u32(static_cast<std::uint32_t>(m.batch.cache.size()));
  for (const model::CacheOp& op : m.batch.cache) {
    w.i32(static_cast<std::int32_t>(op.kind));
    w.i32(op.sequence);
    w.i32(op.from);
    w.i32(op.positions);
  }
  w.u32(static_cast<std::uint32_t>(m.tokens.size()));
  for (const std::int32_t token : m.tokens) w.i32(token);
  for (const model::Place& place : m.batch.places) {
    w.i32(place.owner);
    w.i32(place.partitioned);
  }
}
void read(Reader& r, StepBegin& m) {
  m.step = r.natural("step");
  const std::size_t segments = r.count("segments", kMaxSegments, kSegmentBytes);
  if (segments == 0) r.fail("segments", "0", "at least 1");
  m.batch.segments.reserve(segments);
  std::size_t rows = 0;
  for (std::size_t i = 0; i < segments; ++i) {
    model::Segment segment;
    segment.sequence = r.natural("sequence");
    segment.past = r.natural("past");
    segment.rows = r.natural("rows");
    segment.sampled = r.natural("sampled rows");
    rows += static_cast<std::size_t>(segment.rows);
    if (segment.rows == 0 || rows > kMaxTokens) {
      r.fail("rows", std::to_string(rows), "1 to " + std::to_string(kMaxTokens));
    }
    if (segment.sampled > segment.rows) {
      r.fail("sampled rows", std::to_string(segment.sampled),
             "at most its " + std::to_string(segment.rows) + " rows");
    }
    if (segment.past > std::numeric_limits<std::int32_t>::max() - segment.rows) {
      r.fail("past", std::to_string(segment.past), "a position that rows can follow");
    }
    m.batch.segments.push_back(segment);
  }
  const std::size_t ops = r.count("cache operations", kMaxCacheOps, kCacheOpBytes);
  m.batch.cache.reserve(ops);
  for (std::size_t i = 0; i < ops; ++i) {
    model::CacheOp op;
    const std::uint32_t kind = r.u32();
    if (kind < 1 || kind > static_cast<std::uint32_t>(model::CacheOpKind::truncate))
      r.fail("cache operation", std::to_string(kind), "1 to 3");
    op.kind = static_cast<model::CacheOpKind>(kind);
    op.sequence = r.natural("sequence");
    op.from = r.natural("sequence to fork from");
    op.positions = r.natural("positions");
    m.batch.cache.push_back(op);
  }
  const std::size_t tokens = r.count("tokens", kMaxTokens, 4);
  if (tokens != 0 && tokens != rows) {
    r.fail("tokens", std::to_string(tokens), "none or one a row, " + std::to_string(rows));
  }
  m.tokens.reserve(tokens);
  for (std::size_t i = 0; i < tokens; ++i) m.tokens.push_back(r.natural("token"));
  if (r.at_end()) return;
  m.batch.places.reserve(segments);
  for (std::size_t i = 0; i < segments; ++i) {
    model::Place& place = m.batch.places.emplace_back();
    place.owner = r.natural("owner");
    place.partitioned = r.natural("partitioned positions");
    if (static_cast<std::size_t>(place.owner) >= kMaxDevices)
      r.fail("owner", std::to_string(place.owner), "below " + std::to_string(kMaxDevices));
  }
}

void write(Writer& w, const Abort& m) {
  w.text(std::string_view(m.reason).substr(0, kMaxReasonBytes), kMaxReasonBytes);
}
void read(Reader& r, Abort& m) {
  m.reason = model::printable(r.text("reason", kMaxReasonBytes), kMaxReasonBytes);
}

void write(Writer& w, const Report& m) {
  w.u8(static_cast<std::uint8_t>(m.kind));
  w.u8(m.last ? 1 : 0);
  w.text(m.bytes, kMaxChunkBytes);
}
void read(Reader& r, Report& m) {
  m.kind = r.choice("kind of report", ReportKind::profile);
  m.last = r.flag("last");
  m.bytes = r.text("report", kMaxChunkBytes);
}

struct TypeInfo {
  std::string_view name;
  std::size_t limit;  // of the body
};
// By position in Message.
constexpr std::array<TypeInfo, std::variant_size_v<Message>> kTypes{{
    {"Hello", 64},
    {"PlanOffer", kMaxPlanBytes + kMaxOptionsBytes + 256},
    {"PlanAnswer", kMaxReasonBytes + 16},
    {"BlocksOffer", kMaxOfferedPieces * sizeof(model::Digest) + kMaxOfferedBlocks * 4 + 4},
    {"BlocksWanted", kMaxOfferedPieces * 4 + kMaxOfferedBlocks * 4 + 4},
    {"WeightChunk", kMaxChunkBytes},
    {"Ready", 0},
    {"Peers", kMaxDevices*(kMaxAddressBytes + 4) + 4},
    {"StepBegin", kMaxSegments*(kSegmentBytes + kPlaceBytes) + kMaxCacheOps* kCacheOpBytes +
                      kMaxTokens * 4 + 16},
    {"Heartbeat", 64},
    {"Abort", kMaxReasonBytes + 16},
    {"Report", kMaxChunkBytes + 16},
    {"Goodbye", 0},
    {"Refusal", kMaxDetailBytes + 16},
    {"Inquiry", 0},
    {"About", 4 * (kMaxDetailBytes + 4) + 32},
    {"ProfileOrder", kMaxModelBytes + 2 * kMaxFormats*(kMaxFormatBytes + 4) + 32},
    {"LinkOrder", kMaxDetailBytes + kMaxAddressBytes + 16},
    {"ProbeOrder", 2 * (kMaxProbePeers * 4 + 4) + 16},
    {"ProbeAnswer", kMaxReasonBytes + kMaxProbePeers * 8 + 16},
}};

template <std::size_t Index = 0>
Message parse_type(std::size_t index, Reader& reader) {
  if constexpr (Index < std::variant_size_v<Message>) {
    if (index != Index) return parse_type<Index + 1>(index, reader);
    std::variant_alternative_t<Index, Message> message;
    read(reader, message);
    reader.end();
    return message;
  } else {
    throw std::logic_error("wire: unknown type after parse_frame_header");
  }
}

}  // namespace

std::string_view to_string(Role role) {
  switch (role) {
    case Role::master:
      return "master";
    case Role::worker:
      return "worker";
  }
  return "?";
}

SessionId random_session() {
  std::random_device device;
  SessionId id{};
  for (std::byte& byte : id) byte = static_cast<std::byte>(device() & 0xFFU);
  return id;
}

std::string_view name_of(const Message& message) { return kTypes.at(message.index()).name; }

std::vector<std::byte> encode(const Message& message) {
  std::vector<std::byte> frame(kFrameHeaderBytes);
  Writer writer(frame);
  std::visit([&](const auto& m) { write(writer, m); }, message);
  const std::size_t body = frame.size() - kFrameHeaderBytes;
  require(body <= kTypes.at(message.index()).limit, "wire: message above its limit");
  store(static_cast<std::uint32_t>(body), frame.data());
  frame[4] = static_cast<std::byte>(message.index() + 1);
  return frame;
}

FrameHeader parse_frame_header(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  const FrameHeader header{.body_bytes = load<std::uint32_t>(bytes.data()),
                           .type = load<std::uint8_t>(bytes.data() + 4)};
  const bool padded =
      bytes[5] == std::byte{0} && bytes[6] == std::byte{0} && bytes[7] == std::byte{0};
  if (header.type < 1 || header.type > kTypes.size() || !padded) {
    if (begins_tls(bytes)) throw Error(kOnlyPeerHasKey);
    throw Error("message: type " + std::to_string(header.type) + ", expected 1 to " +
                std::to_string(kTypes.size()) + "; the peer is not a tandem of this version");
  }
  const TypeInfo& type = kTypes.at(header.type - std::size_t{1});
  if (header.body_bytes > type.limit) {
    throw Error("message " + std::string(type.name) + ": length is " +
                std::to_string(header.body_bytes) + " bytes, expected at most " +
                std::to_string(type.limit) + "; the peer is not a tandem of this version");
  }
  return header;
}

Message parse_body(const FrameHeader& header, std::span<const std::byte> body) {
  require(header.type >= 1 && header.type <= kTypes.size(), "wire: header was not parsed");
  const std::size_t index = header.type - std::size_t{1};
  Reader reader(body, kTypes.at(index).name);
  if (body.size() != header.body_bytes) {
    reader.fail("length", std::to_string(body.size()), std::to_string(header.body_bytes));
  }
  return parse_type(index, reader);
}

void encode_data_header(const DataHeader& header, std::span<std::byte, kDataHeaderBytes> out) {
  store(static_cast<std::uint32_t>(header.tag.step), out.data());
  store(static_cast<std::uint32_t>(header.tag.task), out.data() + 4);
  store(header.bytes, out.data() + 8);
}

DataHeader parse_data_header(std::span<const std::byte, kDataHeaderBytes> bytes) {
  return {.tag = {.step = static_cast<std::int32_t>(load<std::uint32_t>(bytes.data())),
                  .task = static_cast<std::int32_t>(load<std::uint32_t>(bytes.data() + 4))},
          .bytes = load<std::uint64_t>(bytes.data() + 8)};
}

}  // namespace tandem::exec
