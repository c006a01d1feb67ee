#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "model/base/error.hpp"
#include "sim/platform/platform.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::sim {
namespace test::flattened_test {
namespace {

namespace fs = std::filesystem;

fs::path cases() { return tandem::testing::in_sources("tests/data/platforms"); }

Platform read(const std::string& name, const PlatformOptions& options = {}) {
  return read_platform((cases() / name).string(), options);
}

std::string refusal(const std::string& path, const PlatformOptions& options = {}) {
  try {
    static_cast<void>(read_platform(path, options));
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

std::string written(const std::string& name, const std::string& body) {
  const fs::path path = fs::temp_directory_path() / name;
  std::ofstream(path) << "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM "
                         "\"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n"
                      << body << "\n</platform>\n";
  return path.string();
}

// A row of *.routes.csv: what SimGrid's API says of a pair of hosts.
struct Row {
  std::string from;
  std::string to;
  double latency_s = 0.0;
  double bandwidth_Bps = 0.0;  // of the links but Wi-Fi; 1e300 without any
};

std::vector<Row> rows_of(const fs::path& file) {
  std::vector<Row> rows;
  std::ifstream text(file);
  std::string line;
  std::getline(text, line);
  while (std::getline(text, line)) {
    std::istringstream fields(line);
    Row row;
    std::string latency;
    std::string bandwidth;
    std::getline(fields, row.from, ',');
    std::getline(fields, row.to, ',');
    std::getline(fields, latency, ',');
    std::getline(fields, bandwidth, ',');
    row.latency_s = std::stod(latency);
    row.bandwidth_Bps = std::stod(bandwidth);
    rows.push_back(row);
  }
  return rows;
}

// The least bandwidth of a route's links but the Wi-Fi link of the case, "air".
double least_bandwidth(const model::Cluster& cluster, const model::Route& route) {
  double least = 1e300;
  for (const model::Hop& hop : route.hops) {
    const model::Link& link = cluster.links()[static_cast<std::size_t>(hop.link)];
    if (link.name != "air" && !link.name.starts_with("distance "))
      least = std::min(least, link.bandwidth.value());
  }
  return least;
}

const model::Link& link(const model::Cluster& cluster, const std::string& name) {
  const auto found = std::ranges::find(cluster.links(), name, &model::Link::name);
  REQUIRE_MESSAGE(found != cluster.links().end(), name);
  return *found;
}

// Two hosts, a and b, in a nested zone, with `links` and `routes` of it.
std::string nested(const std::string& links, const std::string& routes) {
  return "<zone id=\"w\" routing=\"Full\"><zone id=\"z\" routing=\"Full\">\n"
         "<host id=\"a\" speed=\"1Gf\"/><host id=\"b\" speed=\"1Gf\"/>\n" +
         links + routes + "</zone></zone>";
}

// A link with a 5 ms jitter and a change of bandwidth, but for its end tag.
std::string link_text(const std::string& id, const std::string& more,
                      const std::string& prop = "tandem:jitter") {
  return "<link id=\"" + id + "\" bandwidth=\"100MBps\" latency=\"1ms\" " + more + "><prop id=\"" +
         prop + "\" value=\"5ms\"/></link>\n";
}

const model::Device& device(const model::Cluster& cluster, const std::string& name) {
  return cluster.devices()[static_cast<std::size_t>(cluster.find(name))];
}

}  // namespace

TEST_CASE("sim/platform: routes of every case are SimGrid's, to 1e-9") {
  int files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(cases())) {
    if (entry.path().extension() != ".xml") continue;
    const std::string stem = entry.path().stem().string();
    CAPTURE(stem);
    ++files;
    const std::vector<Row> rows = rows_of(cases() / (stem + ".routes.csv"));
    REQUIRE(!rows.empty());
    PlatformOptions options;
    if (stem == "incomplete_full") options.hosts = {"a", "b"};
    const model::Cluster cluster = read(stem + ".xml", options).cluster;
    int compared = 0;
    for (const Row& row : rows) {
      if (stem == "incomplete_full" && (row.from == "c" || row.to == "c")) continue;
      CAPTURE(row.from);
      CAPTURE(row.to);
      const model::Route& route = cluster.route(cluster.find(row.from), cluster.find(row.to));
      CHECK(route.latency.value() == doctest::Approx(row.latency_s).epsilon(1e-9));
      CHECK(least_bandwidth(cluster, route) == doctest::Approx(row.bandwidth_Bps).epsilon(1e-8));
      ++compared;
    }
    // Of a bypass that leads one way, SimGrid finds the way back when the platform is sealed, as it
    // is for a simulation; the rows come from one that is not.
    if (stem != "incomplete_full" && stem != "bypass")
      CHECK(compared == cluster.size() * (cluster.size() - 1));
  }
  CHECK(files == 19);
}

TEST_CASE("sim/platform: of two equally short routes, SimGrid's is read, with one remark") {
  for (const char* const file :
       {"equal_routes_floyd.xml", "equal_routes_dijkstra.xml", "equal_routes_dijkstra_cache.xml"}) {
    CAPTURE(file);
    const Platform platform = read(file);
    REQUIRE(platform.remarks.size() == 1);
    CHECK(platform.remarks[0].find("equally short: route from ") != std::string::npos);
    CHECK(platform.cluster.routers().empty());
  }
  // A given route of three links, and a way round of two.
  const Platform longer = read_platform(written(
      "longer_route.xml",
      "<zone id=\"z\" routing=\"Dijkstra\"><host id=\"a\" speed=\"1Gf\"/><host id=\"b\" "
      "speed=\"1Gf\"/><router id=\"r\"/><link id=\"l\" bandwidth=\"1MBps\" latency=\"0s\"/><link "
      "id=\"m\" bandwidth=\"2MBps\" latency=\"0s\"/><link id=\"n\" bandwidth=\"3MBps\" "
      "latency=\"0s\"/><route src=\"a\" dst=\"b\"><link_ctn id=\"l\"/><link_ctn "
      "id=\"m\"/><link_ctn "
      "id=\"n\"/></route><route src=\"a\" dst=\"r\"><link_ctn id=\"m\"/></route><route src=\"r\" "
      "dst=\"b\"><link_ctn id=\"n\"/></route></zone>"));
  CHECK(longer.remarks.size() == 1);
  CHECK(longer.cluster.route(0, 1).hops.size() == 2);
  CHECK(read("cluster.xml").remarks.empty());
}

TEST_CASE("sim/platform: blanks before the XML declaration are accepted, as SimGrid does") {
  std::ifstream given(cases() / "config.xml");
  std::stringstream text;
  text << "\n" << given.rdbuf();
  const fs::path path = fs::temp_directory_path() / "flat_blank.xml";
  std::ofstream(path) << text.str();
  CHECK(read_platform(path.string()).cluster.size() == 2);
}

TEST_CASE("sim/platform: a Wi-Fi link is a medium that a station's end of a route passes once") {
  const model::Cluster cluster = read("wifi.xml").cluster;
  const auto rate = [&](const char* from, const char* to) {
    return cluster.route(cluster.find(from), cluster.find(to)).bandwidth.value();
  };
  CHECK(rate("Station 1", "Station 2") == doctest::Approx(54e6 / 8 / 2));
  CHECK(rate("Station 1", "desktop") == doctest::Approx(54e6 / 8));
  CHECK(rate("desktop", "Station 2") == doctest::Approx(54e6 / 8));
}

TEST_CASE("sim/platform: p-states, memory of other programs, disks and profiles are read") {
  const Platform home = read("blanks_and_pstates.xml");
  CHECK(device(home.cluster, "Living room PC").flop_rate.value() == doctest::Approx(50e9 * 8));
  CHECK(device(home.cluster, "Living room PC").memory.value() == 16.0 * 1024 * 1024 * 1024);
  CHECK(device(home.cluster, "Kitchen tablet").memory.value() == doctest::Approx(3e9));
  CHECK(device(read("disks.xml").cluster, "a").disk_bandwidth.value() == doctest::Approx(500e6));
  const model::Cluster changing = read("profile_files.xml").cluster;
  REQUIRE(changing.devices()[0].speeds.size() == 3);
  CHECK(changing.devices()[0].speeds[1].factor == 0.5);
  REQUIRE(changing.links()[0].changes.size() == 2);
  CHECK(changing.links()[0].changes[1].bandwidth->value() == 12500000.0);
  const Platform configured = read("config.xml");
  REQUIRE(configured.remarks.size() == 1);
  CHECK(configured.remarks[0] ==
        "<config> ignored, as tandem sets SimGrid's options: network/model=CM02, "
        "network/TCP-gamma=4194304");
}

TEST_CASE("sim/platform: links x_UP and x_DOWN of the file stay two, with their properties") {
  const std::string routes =
      "<route src=\"a\" dst=\"b\" symmetrical=\"NO\"><link_ctn id=\"x_UP\"/></route>\n"
      "<route src=\"b\" dst=\"a\" symmetrical=\"NO\"><link_ctn id=\"x_DOWN\"/></route>\n";
  const model::Cluster two =
      read_platform(
          written("flat_own.xml", nested(link_text("x_UP", "") + link_text("x_DOWN", ""), routes)))
          .cluster;
  CHECK(link(two, "x_UP").jitter.value() == doctest::Approx(5e-3));
  CHECK(link(two, "x_DOWN").jitter.value() == doctest::Approx(5e-3));
  CHECK(refusal(written("flat_own_bad.xml",
                        nested(link_text("x_UP", "") + link_text("x_DOWN", "", "tandem:nonsense"),
                               routes)))
            .find("<prop tandem:nonsense> of link x_DOWN is unknown") != std::string::npos);
}

TEST_CASE("sim/platform: directions of a split-duplex link keep its properties and profiles") {
  const fs::path profile = fs::temp_directory_path() / "flat_split.profile";
  std::ofstream(profile) << "0 100000000\n5 1000000\n";
  const std::string split = "sharing_policy=\"SPLITDUPLEX\" bandwidth_file=\"flat_split.profile\"";
  // A route that passes x_UP twice keeps the directions of x apart, and those of q together.
  const model::Cluster twice =
      read_platform(
          written("flat_split.xml", nested(link_text("x", split) + link_text("q", split),
                                           "<route src=\"a\" dst=\"b\">"
                                           "<link_ctn id=\"x\" direction=\"UP\"/>"
                                           "<link_ctn id=\"q\" direction=\"UP\"/>"
                                           "<link_ctn id=\"x\" direction=\"UP\"/></route>\n")))
          .cluster;
  for (const char* const name : {"x_UP", "x_DOWN", "q"}) {
    const model::Link& one = link(twice, name);
    CHECK(one.jitter.value() == doctest::Approx(5e-3));
    REQUIRE(one.changes.size() == (one.sharing == model::Sharing::split_duplex ? 4 : 2));
    CHECK(one.changes.back().bandwidth->value() == 1e6);
  }
}

TEST_CASE("sim/platform: a trace names a direction of a cluster's link, and nothing unused") {
  const auto traced = [](const std::string& kind, const std::string& element) {
    return written("flat_trace.xml",
                   "<zone id=\"w\" routing=\"Full\"><cluster id=\"c\" prefix=\"n\" suffix=\"\" "
                   "radical=\"0-2\" speed=\"1Gf\" bw=\"1GBps\" lat=\"1us\"/>\n"
                   "<trace id=\"t\">0 1000</trace><trace_connect kind=\"" +
                       kind + "\" trace=\"t\" element=\"" + element + "\"/></zone>");
  };
  const model::Cluster up = read_platform(traced("BANDWIDTH", "c_link_1_UP")).cluster;
  CHECK(link(up, "c_link_1").changes.size() == 1);
  CHECK(refusal(traced("BANDWIDTH", "c_link_1")).find("_UP or _DOWN") != std::string::npos);
  CHECK(refusal(traced("BANDWIDTH", "n1")).find("names no link") != std::string::npos);
  CHECK(refusal(traced("SPEED", "c_link_1_UP")).find("names no host") != std::string::npos);
  CHECK(read_platform(traced("SPEED", "n1"), {.hosts = {"n0", "n2"}}).cluster.size() == 2);
}

TEST_CASE("sim/platform: --default sets what the file does not state") {
  const Platform one = read("config.xml", {.defaults = {{"memory", "2GiB"}}});
  CHECK(one.cluster.devices()[0].memory.value() == 2.0 * 1024 * 1024 * 1024);
  const Platform two = read("blanks_and_pstates.xml", {.defaults = {{"memory", "2GiB"}}});
  CHECK(two.cluster.devices()[0].memory.value() != 2.0 * 1024 * 1024 * 1024);
  CHECK(refusal((cases() / "config.xml").string(), {.defaults = {{"ram", "2GiB"}}})
            .find("'ram' has no default") != std::string::npos);
}

TEST_CASE("sim/platform: hosts narrow a graph without changing its routes") {
  const model::Cluster all =
      read_platform(tandem::testing::in_sources("scenarios/platforms/klonet8.xml").string())
          .cluster;
  const std::string first = all.devices()[1].name;
  const std::string second = all.devices()[6].name;
  const model::Cluster two =
      read_platform(tandem::testing::in_sources("scenarios/platforms/klonet8.xml").string(),
                    {.hosts = {first, second}})
          .cluster;
  REQUIRE(two.size() == 2);
  CHECK(two.route(0, 1).latency.value() ==
        all.route(all.find(first), all.find(second)).latency.value());
}

TEST_CASE("sim/platform: every name of --hosts chooses hosts, by * and ? or exactly") {
  const auto host = [](const std::string& name) {
    return "<host id=\"" + name + "\" speed=\"1Gf\"/>\n";
  };
  std::string body;
  const std::vector<std::string> names{"a[1]", "a1", "*", "c,d", "b\\1"};
  for (const std::string& name : names) body += host(name);
  body += "<link id=\"l\" bandwidth=\"1GBps\" latency=\"1us\"/>\n";
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k)
      body +=
          "<route src=\"" + names[i] + "\" dst=\"" + names[k] + "\"><link_ctn id=\"l\"/></route>\n";
  }
  const std::string graph = "<zone id=\"z\" routing=\"Full\">\n" + body + "</zone>\n";
  const std::string flat = "<zone id=\"w\" routing=\"Full\">" + graph + "</zone>\n";
  for (const std::string& text : {graph, flat}) {
    const std::string path = written("flat_names.xml", text);
    const auto chosen = [&](const std::vector<std::string>& hosts) {
      std::set<std::string> found;
      const Platform platform = read_platform(path, {.hosts = hosts});
      for (const model::Device& one : platform.cluster.devices()) found.insert(one.name);
      return found;
    };
    using Names = std::set<std::string>;
    CHECK(chosen({"a[1]"}) == Names{"a[1]"});
    CHECK(chosen({"a[*", "*"}) == Names{"a[1]", "*"});
    CHECK(chosen({"b\\?", "c?d"}) == Names{"b\\1", "c,d"});
    CHECK(chosen({"a*", "a1"}) == Names{"a[1]", "a1"});
    CHECK(chosen({"?1", "**"}) == Names{names.begin(), names.end()});
    for (const char* const absent : {"zzz", "b\\*1x", "[ab]1"}) {
      const std::string said = refusal(path, {.hosts = {"a1", absent}});
      CAPTURE(said);
      CHECK(said.find(std::string("'") + absent + "' of --hosts is no host") != std::string::npos);
      CHECK(said.find("write ? for one in a name, as in c?d") != std::string::npos);
    }
  }
}

TEST_CASE("sim/platform: what is assumed is listed of the hosts that are read or used alone") {
  const std::string hosts =
      "<host id=\"a\" speed=\"1Gf\"/>\n<host id=\"b\" speed=\"1Gf\"/>\n"
      "<host id=\"c\" speed=\"1Gf\"/>\n<link id=\"l\" bandwidth=\"1GBps\" latency=\"1us\"/>\n"
      "<route src=\"a\" dst=\"b\"><link_ctn id=\"l\"/></route>\n"
      "<route src=\"a\" dst=\"c\"><link_ctn id=\"l\"/></route>\n"
      "<route src=\"b\" dst=\"c\"><link_ctn id=\"l\"/></route>\n";
  const std::string graph = "<zone id=\"z\" routing=\"Full\">\n" + hosts + "</zone>\n";
  const std::string flat = "<zone id=\"w\" routing=\"Full\">" + graph + "</zone>\n";
  for (const std::string& text : {graph, flat}) {
    const std::string path = written("assumed_hosts.xml", text);
    const auto memory = [&](const PlatformOptions& options) {
      for (const std::string& line : read_platform(path, options).defaults) {
        if (line.find("memory assumed") != std::string::npos) return line.substr(line.rfind(": "));
      }
      return std::string("nothing");
    };
    CHECK(memory({}) == ": a, b, c");
    CHECK(memory({.hosts = {"a", "c"}}) == ": a, c");
    CHECK(memory({.used = {"b", "c"}}) == ": b, c");
  }
}

TEST_CASE("sim/platform: with hosts that are used, the file's others are counted and known") {
  const std::string path = (cases() / "cluster.xml").string();
  const Platform all = read_platform(path);
  const std::string first = all.cluster.devices()[0].name;
  const Platform some = read_platform(path, {.used = {first, all.cluster.devices()[1].name}});
  CHECK(some.cluster.size() == 2);
  CHECK(some.hosts == all.cluster.devices().size());
  CHECK(all.hosts == some.hosts);
  CHECK(read_platform(path, {.hosts = {first}}).hosts == 1);
  const std::string said = refusal(path, {.used = {first, "nope"}});
  CHECK(said.find("'nope' of --devices or --master is no host") != std::string::npos);
  CHECK(said.find(all.cluster.devices()[2].name) != std::string::npos);
}

TEST_CASE("sim/platform: what cannot be flattened is one clear line") {
  const auto contains = [](const std::string& text, const std::string& part) {
    CAPTURE(text);
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
    CHECK(text.find('\n') == std::string::npos);
  };
  contains(refusal((cases() / "incomplete_full.xml").string()), "no route from a to c");
  contains(refusal((cases() / "incomplete_full.xml").string()), "--hosts 'a,b'");
  contains(refusal((cases() / "cluster.xml").string(), {.hosts = {"nothing*"}}), "--hosts");
  const auto cluster = [](const std::string& more) {
    return "<zone id=\"w\" routing=\"Full\">\n<cluster id=\"c\" prefix=\"n\" suffix=\"\" "
           "speed=\"1Gf\" bw=\"1Gbps\" lat=\"1us\" " +
           more + "/>\n</zone>";
  };
  contains(refusal(written("flat_many.xml", cluster("radical=\"0-9999\""))), "10000 hosts");
  contains(refusal(written("flat_huge.xml", cluster("radical=\"0-999999999\""))),
           ":5: <cluster c>");
  for (const char* const radical : {"5-3", "", "a-b", "1,,2", "0-", "-3"}) {
    CAPTURE(radical);
    contains(
        refusal(written("flat_radical.xml", cluster(std::string("radical=\"") + radical + "\""))),
        ":5: <cluster c> has radical=\"");
  }
  contains(refusal(written("flat_core.xml", cluster("radical=\"0-3\" core=\"0\""))),
           "has core=\"0\", expected a whole number");
  // An abort of SimGrid for which there is no check.
  const std::string few = cluster("radical=\"0-3\" topology=\"TORUS\" topo_parameters=\"7,7\"");
  contains(refusal(written("flat_few.xml", few)),
           "cannot load this file, or find its routes; mend or remove");
  const auto unused = [](const std::string& more) {
    return nested("", "<link id=\"l\" bandwidth=\"1GBps\" latency=\"1us\"/>" + more +
                          "<route src=\"a\" dst=\"b\"><link_ctn id=\"l\"/></route>\n");
  };
  contains(refusal(written("flat_unused.xml", unused(link_text("u", "", "tandem:bogus")))),
           "<prop tandem:bogus> of link u is unknown");
  contains(refusal(written("flat_part.xml", unused("<host id=\"c\" speed=\"1Gf\" core=\"2.5\"/>")),
                   {.hosts = {"a", "b"}}),
           "has core=\"2.5\"");
  const std::string memory = "<prop id=\"tandem:memory\" value=\"1GiB\"/>";
  contains(refusal(written("flat_memory.xml",
                           unused("<host id=\"c\" speed=\"1Gf\">" + memory + memory + "</host>")),
                   {.hosts = {"a", "b"}}),
           "given twice for host c");
  contains(refusal(written("flat_air.xml",
                           unused("<link id=\"air\" sharing_policy=\"WIFI\" bandwidth=\"54Mbps\" "
                                  "latency=\"2ms\"/>"))),
           "has latency=\"2ms\", expected 0");
  contains(refusal(written("flat_topology.xml", cluster("radical=\"0-3\" topology=\"CUBE\""))),
           "flat_topology.xml");
  contains(refusal(written("flat_speed.xml",
                           "<zone id=\"w\" routing=\"Full\"><zone id=\"v\" routing=\"Full\">"
                           "<host id=\"a\" speed=\"-1Gf\"/></zone></zone>")),
           "positive");
  contains(refusal(written("flat_prop.xml",
                           "<zone id=\"w\" routing=\"Full\"><zone id=\"v\" routing=\"Full\">\n"
                           "<host id=\"a\" speed=\"1Gf\"><prop id=\"tandem:memroy\" "
                           "value=\"8GB\"/></host></zone></zone>")),
           ":5: <prop tandem:memroy>");
  contains(refusal(written("flat_profile.xml",
                           "<zone id=\"w\" routing=\"Full\">\n<host id=\"a\" speed=\"1Gf\" "
                           "speed_file=\"absent.profile\"/></zone>")),
           "absent.profile");
  contains(refusal(written("flat_fails.xml",
                           "<zone id=\"w\" routing=\"Full\"><zone id=\"v\" routing=\"Full\">\n"
                           "<host id=\"a\" speed=\"1Gf\" state_file=\"f\"/></zone></zone>")),
           "nothing fails in tandem");
}

}  // namespace test::flattened_test
}  // namespace tandem::sim
