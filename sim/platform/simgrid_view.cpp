#include "sim/platform/simgrid_view.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <simgrid/s4u/Disk.hpp>
#include <simgrid/s4u/Host.hpp>
#include <simgrid/s4u/Link.hpp>
#include <span>
#include <unordered_map>

#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"
#include "model/base/system_fault.hpp"
#include "sim/network/child.hpp"
#include "sim/network/engine.hpp"
#include "sim/network/network_settings.hpp"

namespace tandem::sim {
namespace {

namespace s4u = simgrid::s4u;

using Json = nlohmann::json;

constexpr std::chrono::milliseconds kTimeout{60000};
constexpr rlim_t kMostMemory = rlim_t{4} << 30U;  // bytes that SimGrid may add to the process

// Writes `text` to the file in memory that SimGrid reads. A limit on files holds for it too.
void hand_over(int file, std::string_view text, const std::string& source) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int why = written < 0 ? errno : ENOSPC;
      std::string fault = source + ": could not be handed to SimGrid in a file in memory: ";
      fault += model::system_fault(why, why == EFBIG ? "raise `ulimit -f`" : "free some memory");
      throw Error(fault);
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// A short file can describe a platform that fills the machine's memory.
void limit_memory() {
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  if (!(statm >> pages)) return;
  const rlim_t most = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + kMostMemory;
  const rlimit limit{most, most};
  ::setrlimit(RLIMIT_AS, &limit);
}

// SimGrid gets exactly the text that was checked, under a name that it cannot mistake for a library
// to load.
const s4u::Engine& load(std::string_view text, const std::string& source) {
  model::require_open_files(2, "SimGrid, which reads " + source);  // it would not say what it lacks
  const int file = ::memfd_create("platform", 0);
  if (file < 0)
    throw Error(source + ": no file in memory to hand it to SimGrid: " +
                model::system_fault(errno, "free some memory"));
  const std::string name = "/proc/self/fd/" + std::to_string(file);
  hand_over(file, text, source);
  limit_memory();
  const s4u::Engine& engine = make_engine();
  try {
    engine.load_platform(name);
    engine.seal_platform();
  } catch (const std::exception& e) {
    std::string said = e.what();
    for (std::size_t at = said.find(name); at != std::string::npos; at = said.find(name, at)) {
      said.replace(at, name.size(), source);
      at += source.size();
    }
    std::replace(said.begin(), said.end(), '\n', ' ');
    throw Error(source + ": SimGrid refuses it: " + said + "; mend that place in the file");
  }
  return engine;
}

Json to_json(const s4u::Host& host) {
  Json disks = Json::array();
  for (const s4u::Disk* disk : host.get_disks())
    disks.push_back({disk->get_name(), disk->get_read_bandwidth()});
  Json properties = Json::object();
  for (const auto& [name, value] : *host.get_properties()) properties[name] = value;
  return {host.get_name(), host.get_speed(), host.get_core_count(), disks, properties};
}

Json to_json(const s4u::Link& link) {
  const auto policy = link.get_sharing_policy();
  return {link.get_name(), link.get_bandwidth(), link.get_latency(),
          policy == s4u::Link::SharingPolicy::FATPIPE, policy == s4u::Link::SharingPolicy::WIFI};
}

// In the child: everything as JSON, which travels as CBOR.
Json view(const s4u::Engine& engine, const std::string& source, const ViewedPairs& wanted) {
  const std::vector<s4u::Host*> hosts = engine.get_all_hosts();
  std::vector<s4u::Link*> links = engine.get_all_links();
  std::unordered_map<const s4u::Link*, std::size_t> link_index;
  Json json{{"hosts", Json::array()}, {"links", Json::array()}, {"routes", Json::array()}};
  for (const s4u::Link* link : links) {
    link_index.emplace(link, link_index.size());
    json["links"].push_back(to_json(*link));
  }
  std::unordered_map<std::string, std::size_t> host_index;
  std::vector<std::string> names;
  names.reserve(hosts.size());
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    host_index.emplace(hosts[i]->get_name(), i);
    json["hosts"].push_back(to_json(*hosts[i]));
    names.push_back(hosts[i]->get_name());
  }
  Json& routes = json["routes"];
  const auto read = [&](std::size_t from, std::size_t to) {
    std::vector<s4u::Link*> crossed;
    double latency_s = 0.0;
    try {
      hosts[from]->route_to(hosts[to], crossed, &latency_s);
    } catch (const std::exception&) {
      return;  // no route
    }
    if (crossed.empty() && latency_s == 0.0) return;
    Json route = Json::array({from, to, latency_s});
    for (const s4u::Link* link : crossed) {
      const auto [at, fresh] = link_index.try_emplace(link, link_index.size());
      if (fresh) json["links"].push_back(to_json(*link));
      route.push_back(at->second);
    }
    routes.push_back(std::move(route));
  };
  if (!wanted.pairs.empty()) {
    for (const auto& [from, to] : wanted.pairs) {
      const auto a = host_index.find(from);
      const auto b = host_index.find(to);
      if (a != host_index.end() && b != host_index.end()) read(a->second, b->second);
    }
    return json;
  }
  const std::vector<std::size_t> selected = chosen_hosts(wanted.chosen, names, source);
  if (selected.size() > kMostFlattened)
    throw Error(source + ": routes between " + std::to_string(selected.size()) +
                " hosts, expected at most " + std::to_string(kMostFlattened) +
                "; name those to plan for, as in --hosts '" +
                model::one_line(pattern_of(names[selected.front()]), 60) + "," +
                model::one_line(pattern_of(names[selected.back()]), 60) + "' (* and ? match any)");
  for (const std::size_t from : selected) {
    for (const std::size_t to : selected) {
      if (from != to) read(from, to);
    }
  }
  return json;
}

SimgridView parse(const Json& json) {
  SimgridView view;
  view.hosts.reserve(json.at("hosts").size());
  view.links.reserve(json.at("links").size());
  for (const Json& host : json.at("hosts")) {
    ViewedHost& read = view.hosts.emplace_back();
    read = {.name = host[0], .speed = host[1], .cores = host[2], .properties = host[4]};
    for (const Json& disk : host[3]) read.disks.push_back({disk[0], disk[1]});
  }
  for (const Json& link : json.at("links"))
    view.links.push_back({link[0], link[1], link[2], link[3], link[4]});
  view.routes.reserve(json.at("routes").size());
  for (const Json& route : json.at("routes")) {
    ViewedRoute& read = view.routes.emplace_back();
    read = {.from = route[0], .to = route[1], .latency_s = route[2]};
    for (std::size_t i = 3; i < route.size(); ++i) read.links.push_back(route[i]);
  }
  return view;
}

}  // namespace

SimgridView view_with_simgrid(std::string_view text, const std::string& source,
                              const ViewedPairs& wanted) {
  std::vector<std::uint8_t> sent;
  run_in_child(
      {.subject = source,
       .timeout = kTimeout,
       .failed = "SimGrid " + network_settings().at("simgrid") +
                 " cannot load this file, or find its routes; mend or remove what it "
                 "names, or name hosts that reach each other with --hosts"},
      [&](const std::function<void(Bytes)>& send) {
        const std::vector<std::uint8_t> bytes =
            Json::to_cbor(view(load(text, source), source, wanted));
        send(std::as_bytes(std::span(bytes)));
      },
      [&](Bytes bytes) {
        const auto* const first = reinterpret_cast<const std::uint8_t*>(bytes.data());
        sent.insert(sent.end(), first, first + bytes.size());
      });
  return parse(Json::from_cbor(sent));
}

}  // namespace tandem::sim
