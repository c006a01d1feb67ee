#include "exec/transport/wire_discovery.hpp"

#include <algorithm>
#include <bit>

#include "exec/transport/endpoint.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::exec::wire {
namespace {

std::string shown(Reader& r, std::string_view what) {
  return model::printable(r.text(what, kMaxDetailBytes), kMaxDetailBytes);
}

void write_formats(Writer& w, const std::vector<std::string>& formats) {
  require(formats.size() <= kMaxFormats, "wire: too many formats");
  w.u32(static_cast<std::uint32_t>(formats.size()));
  for (const std::string& format : formats) w.text(format, kMaxFormatBytes);
}

std::vector<std::string> read_formats(Reader& r) {
  std::vector<std::string> formats(r.count("formats", kMaxFormats, 4));
  for (std::string& format : formats)
    format = model::printable(r.text("format", kMaxFormatBytes), kMaxFormatBytes);
  return formats;
}

void write_devices(Writer& w, const std::vector<model::DeviceIndex>& devices) {
  require(devices.size() <= kMaxProbePeers, "wire: too many peers");
  w.u32(static_cast<std::uint32_t>(devices.size()));
  for (const model::DeviceIndex device : devices) w.i32(device);
}
void read_devices(Reader& r, std::vector<model::DeviceIndex>& devices) {
  const std::size_t count = r.count("peers", kMaxProbePeers, 4);
  devices.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const model::DeviceIndex device = r.natural("peer");
    if (std::ranges::find(devices, device) != devices.end())
      r.fail("peer", std::to_string(device) + ", twice", "each once");
    devices.push_back(device);
  }
}

}  // namespace

void write(Writer&, const Inquiry&) {}
void read(Reader&, Inquiry&) {}

void write(Writer& w, const About& m) {
  for (const std::string* text : {&m.name, &m.boot, &m.processor, &m.program})
    w.text(std::string_view(*text).substr(0, kMaxDetailBytes), kMaxDetailBytes);
  w.u64(m.network);
  w.u32(m.cores);
  w.u32(m.threads);
  w.u64(m.memory_bytes);
  w.u64(m.disk_bytes);
}
void read(Reader& r, About& m) {
  m.name = shown(r, "name");
  m.boot = shown(r, "boot");
  m.processor = shown(r, "processor");
  m.program = shown(r, "program");
  m.network = r.u64();
  m.cores = r.u32();
  m.threads = r.u32();
  if (m.cores < 1 || m.cores > model::limits::kCores)
    r.fail("cores", std::to_string(m.cores), "1 to " + std::to_string(model::limits::kCores));
  if (m.threads < 1 || m.threads > model::limits::kCores)
    r.fail("threads", std::to_string(m.threads), "1 to " + std::to_string(model::limits::kCores));
  m.memory_bytes = r.u64();
  m.disk_bytes = r.u64();
}

void write(Writer& w, const ProfileOrder& m) {
  w.text(m.model, kMaxModelBytes);
  write_formats(w, m.formats);
  write_formats(w, m.caches);
  w.u32(m.milliseconds);
  w.u8(m.measure ? 1 : 0);
}
void read(Reader& r, ProfileOrder& m) {
  m.model = r.text("model", kMaxModelBytes);
  m.formats = read_formats(r);
  m.caches = read_formats(r);
  m.milliseconds = r.u32();
  if (m.milliseconds > kMaxProfileMilliseconds) {
    r.fail("milliseconds", std::to_string(m.milliseconds),
           "at most " + std::to_string(kMaxProfileMilliseconds));
  }
  m.measure = r.flag("measure");
}

void write(Writer& w, const LinkOrder& m) {
  w.i32(m.peer);
  w.text(std::string_view(m.name).substr(0, kMaxDetailBytes), kMaxDetailBytes);
  w.text(m.address, kMaxAddressBytes);
}
void read(Reader& r, LinkOrder& m) {
  m.peer = r.natural("peer");
  m.name = shown(r, "name");
  m.address = r.text("address", kMaxAddressBytes);
  if (!m.address.empty())
    static_cast<void>(parse_endpoint(m.address, "message LinkOrder: address"));
}

void write(Writer& w, const ProbeOrder& m) {
  w.u8(static_cast<std::uint8_t>(m.kind));
  write_devices(w, m.to);
  write_devices(w, m.from);
  w.u32(m.milliseconds);
  w.u64(m.walked_bytes);
}
void read(Reader& r, ProbeOrder& m) {
  m.kind = r.choice("kind of probe", ProbeKind::streams);
  read_devices(r, m.to);
  read_devices(r, m.from);
  m.milliseconds = r.u32();
  m.walked_bytes = r.u64();
  if (m.milliseconds < 1 || m.milliseconds > kMaxProbeMilliseconds) {
    r.fail("milliseconds", std::to_string(m.milliseconds),
           "1 to " + std::to_string(kMaxProbeMilliseconds));
  }
  if (m.walked_bytes > kMaxWalkedBytes) {
    r.fail("walked bytes", std::to_string(m.walked_bytes),
           "at most " + std::to_string(kMaxWalkedBytes));
  }
  const std::size_t peers = m.to.size() + m.from.size();
  if (m.kind == ProbeKind::round_trips && peers != 1)
    r.fail("peers", std::to_string(peers), "one for round trips");
}

void write(Writer& w, const ProbeAnswer& m) {
  require(m.readings.size() <= kMaxProbePeers, "wire: too many readings");
  w.text(std::string_view(m.fault).substr(0, kMaxReasonBytes), kMaxReasonBytes);
  w.u32(static_cast<std::uint32_t>(m.readings.size()));
  for (const double reading : m.readings) w.u64(std::bit_cast<std::uint64_t>(reading));
}
void read(Reader& r, ProbeAnswer& m) {
  m.fault = model::printable(r.text("fault", kMaxReasonBytes), kMaxReasonBytes);
  const std::size_t count = r.count("readings", kMaxProbePeers, 8);
  m.readings.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto reading = std::bit_cast<double>(r.u64());
    if (!(reading >= 0.0 && reading <= model::limits::kMostRate))
      r.fail("reading", std::to_string(reading), "0 or more, and finite");
    m.readings.push_back(reading);
  }
}

}  // namespace tandem::exec::wire
