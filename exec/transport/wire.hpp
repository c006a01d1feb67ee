#pragma once

// What travels between processes: a fixed set of length-checked messages, little-endian, never a
// graph and never a path. Pure functions on bytes; the sockets are elsewhere.
//
// Control frame: u32 length of the body, u8 type, three zero bytes, body. Data frame: i32 step, i32
// task, u64 length, payload.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "exec/transport/endpoint.hpp"
#include "exec/transport/transport.hpp"
#include "model/base/digest.hpp"
#include "model/base/limits.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::exec {

inline constexpr std::uint32_t kWireVersion = 10;

inline constexpr std::size_t kMaxPlanBytes = model::limits::kPlanBytes;
inline constexpr std::size_t kMaxOptionsBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMaxReasonBytes = 1024;
inline constexpr std::size_t kMaxDetailBytes = 256;
inline constexpr std::size_t kMaxModelBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMaxFormats = 64;
inline constexpr std::size_t kMaxFormatBytes = 16;
inline constexpr std::size_t kMaxProbePeers = 64;
inline constexpr std::uint64_t kMaxWalkedBytes = std::uint64_t{64} << 20;
inline constexpr std::uint32_t kMaxProbeMilliseconds = 10'000;
inline constexpr std::uint32_t kMaxProfileMilliseconds = 3'600'000;
inline constexpr std::size_t kMaxChunkBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxDevices = model::limits::kDevices;
inline constexpr std::size_t kMaxSegments = 4096;
inline constexpr std::size_t kMaxCacheOps = 2 * kMaxSegments;
inline constexpr std::size_t kMaxTokens = std::size_t{1} << 20;
inline constexpr std::size_t kMaxOfferedBlocks = 256;
inline constexpr std::size_t kMaxOfferedPieces = std::size_t{1} << 16;  // of all blocks together
inline constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{1} << 32;

enum class Role : std::uint8_t { master = 1, worker = 2 };
[[nodiscard]] std::string_view to_string(Role role);

// What a connection is for, from its first message on.
enum class Purpose : std::uint8_t { control = 1, channel = 2 };

using SessionId = std::array<std::byte, 16>;  // of one run; random, chosen by the master
[[nodiscard]] SessionId random_session();

// The first message of both sides. The server answers with its own, `device` and `peer` exchanged.
struct Hello {
  std::uint32_t version = kWireVersion;
  Role role = Role::worker;
  Purpose purpose = Purpose::control;
  SessionId session{};
  model::DeviceIndex device = 0;  // the sender of this message
  model::DeviceIndex peer = 0;    // who the sender thinks it talks to
  bool sends = false;  // channel: `device` sends payloads to `peer`; else it receives them
  bool operator==(const Hello&) const = default;
};
// What a master wants a worker to run.
struct PlanOffer {
  std::string sha256{};   // of `plan`, hexadecimal
  std::string plan{};     // JSON
  std::string options{};  // of the run, a small JSON object
  bool operator==(const PlanOffer&) const = default;
};
enum class PlanVerdict : std::uint8_t { accepted = 1, refused = 2 };
struct PlanAnswer {
  PlanVerdict verdict = PlanVerdict::accepted;
  std::string reason{};  // accepted: a remark on the plan, or none
  bool operator==(const PlanAnswer&) const = default;
};
// The next weight blocks of the receiver's share, in the order of its layout, which both sides
// know: of each the SHA-256 of its pieces (exec/weights/store/block_pieces.hpp).
struct BlocksOffer {
  std::vector<std::vector<model::Digest>> blocks{};
  bool operator==(const BlocksOffer&) const = default;
};
// Of each offered block the pieces that are wanted, in ascending order. They are sent at once,
// block by block, in WeightChunks; then comes another answer, until nothing is wanted.
struct BlocksWanted {
  std::vector<std::vector<std::uint32_t>> blocks{};
  bool operator==(const BlocksWanted&) const = default;
};
struct WeightChunk {
  std::vector<std::byte> bytes{};
  bool operator==(const WeightChunk&) const = default;
};
// Says that the sender has come so far: a worker, that it may open channels and then that it may
// execute; the master, that it wants the worker's report.
struct Ready {
  bool operator==(const Ready&) const = default;
};
struct Peers {                           // by device; empty: it does not listen (the master)
  std::vector<std::string> addresses{};  // host:port
  bool operator==(const Peers&) const = default;
};
// An announcement; its frame has model::announcement_bytes. Places of segments are its last fields,
// if the batch has any.
struct StepBegin {
  std::int32_t step = 0;
  model::Batch batch{};
  std::vector<std::int32_t> tokens{};  // of the rows; empty for devices that do not embed
  bool operator==(const StepBegin&) const = default;
};
// What a device is busy with. One that is `waiting` waits for `subject`, or for the master's next
// message.
enum class Phase : std::uint8_t {
  waiting = 1,
  slicing,    // weights, of `subject`
  checking,   // weights that are there
  sending,    // weights, to `subject`
  receiving,  // weights
  loading,    // weights into memory
  opening,    // channels
  warming_up,
  computing,  // a step; waits for `subject` meanwhile if that is a device, for its disk if itself
  reporting,
  profiling,  // this machine; milliseconds
  measuring,  // links
};
struct Heartbeat {  // also says that, and with what, its sender gets on
  Phase phase = Phase::waiting;
  model::DeviceIndex subject = -1;  // -1: nobody
  std::uint64_t ticks = 0;          // differs from one to the next if any work was done between
  std::uint64_t done = 0;           // of the phase: bytes, or tasks
  std::uint64_t total = 0;          // 0: not known
  std::uint64_t busy_ns = 0;        // that its processor has computed in the session
  std::uint64_t rows = 0;           // tokens of the steps that it has finished
  std::uint64_t memory_bytes = 0;   // that its process has in memory now; 0: not known
  bool behind = false;  // the sender has more to take in than it holds, so it reads no more for now
  bool operator==(const Heartbeat&) const = default;
};
struct Abort {
  std::string reason{};
  bool operator==(const Abort&) const = default;
};
enum class ReportKind : std::uint8_t { metrics = 1, spans = 2, profile = 3 };
struct Report {  // one piece of a device's report at the end of a run, or of its profile
  ReportKind kind = ReportKind::metrics;
  bool last = true;  // piece of this kind
  std::string bytes{};
  bool operator==(const Report&) const = default;
};
struct Goodbye {
  bool operator==(const Goodbye&) const = default;
};
enum class RefusalKind : std::uint8_t {
  busy = 1,    // serves another run, `detail` says whose
  present,     // serves this run already, as `device`
  unexpected,  // is in no run that has such a channel
};
struct Refusal {  // a worker's answer to a Hello that it turns down
  RefusalKind kind = RefusalKind::busy;
  model::DeviceIndex device = 0;
  std::string detail{};
  bool operator==(const Refusal&) const = default;
};

// Asks for an About, as the first message of a session that measures and runs nothing. What such a
// session may ask for follows (exec/discovery).
struct Inquiry {
  bool operator==(const Inquiry&) const = default;
};
// A worker's machine.
struct About {
  std::string name{};       // of the host
  std::string boot{};       // kernel's identifier of this boot: workers of one machine share it
  std::uint64_t network{};  // the kernel's number of the worker's network namespace
  std::string processor{};  // its make
  std::string program{};    // version
  std::uint32_t cores = 1;
  std::uint32_t threads = 1;       // that compute
  std::uint64_t memory_bytes = 0;  // available
  std::uint64_t disk_bytes = 0;    // free, in the cache folder
  bool operator==(const About&) const = default;
};
// Asks for the profile of the worker's machine, which comes in Reports: a kept one, unless
// `measure`, else one that is measured now.
struct ProfileOrder {
  std::string model{};                 // config.json of the model whose sizes are measured
  std::vector<std::string> formats{};  // of weights, beside f32
  std::vector<std::string> caches{};   // types of the cache, beside f32
  std::uint32_t milliseconds = 0;      // about how long it may take
  bool measure = false;
  bool operator==(const ProfileOrder&) const = default;
};
// Opens channels in both directions with `peer`: the receiver connects to `address`, or, if that is
// empty, waits for the peer to connect.
struct LinkOrder {
  model::DeviceIndex peer = 0;
  std::string name{};     // of the peer, for messages
  std::string address{};  // host:port, or empty
  bool operator==(const LinkOrder&) const = default;
};
enum class ProbeKind : std::uint8_t { round_trips = 1, streams = 2 };
// Measures over channels that are open: round trips with the one peer of `to` (asks) or of `from`
// (answers); or streams to and from all of these at once.
struct ProbeOrder {
  ProbeKind kind = ProbeKind::streams;
  std::vector<model::DeviceIndex> to{};
  std::vector<model::DeviceIndex> from{};
  std::uint32_t milliseconds = 0;
  std::uint64_t walked_bytes = 0;  // round trips: memory read before each message
  bool operator==(const ProbeOrder&) const = default;
};
// Answers a LinkOrder or a ProbeOrder.
struct ProbeAnswer {
  std::string fault{};  // empty: done
  // Round trips: half of the median, seconds. Streams: bytes a second from each of `from`.
  std::vector<double> readings{};
  bool operator==(const ProbeAnswer&) const = default;
};

using Message = std::variant<Hello, PlanOffer, PlanAnswer, BlocksOffer, BlocksWanted, WeightChunk,
                             Ready, Peers, StepBegin, Heartbeat, Abort, Report, Goodbye, Refusal,
                             Inquiry, About, ProfileOrder, LinkOrder, ProbeOrder, ProbeAnswer>;
[[nodiscard]] std::string_view name_of(const Message& message);

inline constexpr std::size_t kFrameHeaderBytes = 8;
struct FrameHeader {
  std::uint32_t body_bytes = 0;
  std::uint8_t type = 0;  // position in Message, plus one
};

// Returns the whole frame of `message`. Throws logic_error if the message exceeds its limits.
[[nodiscard]] std::vector<std::byte> encode(const Message& message);
// Throws Error if the type is unknown or the length is above the type's limit, so that nothing is
// allocated for it.
[[nodiscard]] FrameHeader parse_frame_header(std::span<const std::byte, kFrameHeaderBytes> bytes);
// Throws Error unless `body` is exactly one message of that type within all limits; a Hello of
// another version is an Error that names both versions. Texts come back printable.
[[nodiscard]] Message parse_body(const FrameHeader& header, std::span<const std::byte> body);

inline constexpr std::size_t kDataHeaderBytes = 16;
struct DataHeader {
  MessageTag tag;
  std::uint64_t bytes = 0;
  bool operator==(const DataHeader&) const = default;
};
void encode_data_header(const DataHeader& header, std::span<std::byte, kDataHeaderBytes> out);
// Any bytes are a header; the receiver compares it with what it expects.
[[nodiscard]] DataHeader parse_data_header(std::span<const std::byte, kDataHeaderBytes> bytes);

}  // namespace tandem::exec
