#include "sim/platform/platform.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "model/base/error.hpp"

namespace tandem::sim::platform_test {
namespace {

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text, const std::string& suffix = ".xml")
      : path_((std::filesystem::temp_directory_path() /
               ("tandem_platform_" + std::to_string(::getpid()) + suffix))
                  .string()) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string error_of(const std::string& path) {
  try {
    (void)read_platform(path);
  } catch (const Error& e) {
    return e.what();
  }
  return "none";
}

const std::string doctype =
    "<?xml version='1.0'?>\n"
    "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n";

// Lines 3 to 5 are fixed, `body` begins on line 5.
std::string zone(const std::string& body, const std::string& routing = "DijkstraCache") {
  return doctype + "<platform version=\"4.1\">\n<zone id=\"z\" routing=\"" + routing + "\">\n" +
         body + "</zone>\n</platform>\n";
}

// Two hosts, a link and their route, each on a line that a test can replace.
struct Pair {
  std::string a = "<host id=\"a\" speed=\"1Gf\"/>";
  std::string b = "<host id=\"b\" speed=\"2Gf\" core=\"4\"/>";
  std::string link =
      "<link id=\"l\" bandwidth=\"100Mbps\" latency=\"1ms\" sharing_policy=\"SPLITDUPLEX\"/>";
  std::string route = "<route src=\"a\" dst=\"b\"><link_ctn id=\"l\" direction=\"UP\"/></route>";
  [[nodiscard]] std::string text(const std::string& routing = "DijkstraCache") const {
    return zone(a + "\n" + b + "\n" + link + "\n" + route + "\n", routing);
  }
};

std::string with_host(const std::string& a) { return Pair{.a = a}.text(); }
std::string with_props(const std::string& props) {
  return with_host("<host id=\"a\" speed=\"1Gf\">" + props + "</host>");
}
std::string with_link(const std::string& link) { return Pair{.link = link}.text(); }
std::string with_route(const std::string& route) { return Pair{.route = route}.text(); }

// Two hosts, and from line 9 on a trace of the speed of a.
std::string with_trace(const std::string& attributes, const std::string& lines,
                       const std::string& periodicity = "-1") {
  const Pair pair;
  return zone(pair.a + "\n" + pair.b + "\n" + pair.link + "\n" + pair.route +
              "\n<trace id=\"t\" periodicity=\"" + periodicity + "\" " + attributes + ">" + lines +
              "</trace>\n<trace_connect kind=\"SPEED\" trace=\"t\" element=\"a\"/>\n");
}
std::string traced(const std::string& periodicity, const std::string& lines) {
  return with_trace("", lines, periodicity);
}

struct Bad {
  std::string name;
  std::string text;
  int line;          // that the message names; 0: none
  std::string said;  // part of the message
};

std::string many_hosts(int count) {
  std::string hosts;
  for (int i = 0; i < count; ++i)
    hosts += "<host id=\"h" + std::to_string(i) + "\" speed=\"1Gf\"/>\n";
  return hosts;
}

std::string long_route(int links) {
  std::string body = "<host id=\"a\" speed=\"1Gf\"/><host id=\"b\" speed=\"1Gf\"/>\n";
  std::string route = "<route src=\"a\" dst=\"b\">";
  for (int i = 0; i < links; ++i) {
    body += "<link id=\"l" + std::to_string(i) + "\" bandwidth=\"1MBps\" latency=\"0s\"/>";
    route += "<link_ctn id=\"l" + std::to_string(i) + "\"/>";
  }
  return zone(body + route + "</route>");
}

std::vector<Bad> bad_files() {
  const std::string first = "<link_ctn id=\"l\" direction=\"UP\"/>";
  std::vector<Bad> files{
      {"empty", "", 1, "well-formed"},
      {"binary",
       std::string("\x7f"
                   "ELF\x02\x01\0\0",
                   8),
       1, "control character"},
      {"not XML", "hello", 1, "well-formed"},
      {"cut off", Pair{}.text().substr(0, 250), 0, "well-formed"},
      {"crossed tags", doctype + "<platform version=\"4.1\"><zone></platform></zone>", 3,
       "well-formed"},
      {"another top element", "<html/>", 1, "expected <platform>"},
      {"two top elements", Pair{}.text() + "<platform version=\"4.1\"/>", 11, "one top element"},
      {"entities",
       "<!DOCTYPE platform [<!ENTITY a \"1\"><!ENTITY b \"&a;&a;\">]>\n<platform "
       "version=\"4.1\"/>",
       1, "definitions of its own"},
      {"no DOCTYPE", Pair{}.text().substr(Pair{}.text().find("<platform")), 1,
       "add the line <!DOCTYPE"},
      {"another DOCTYPE", "<!DOCTYPE html>\n<platform version=\"4.1\"/>", 2,
       "expected that of platform"},
      {"a byte order mark", "\xEF\xBB\xBF" + Pair{}.text(), 1, "without BOM"},
      {"UTF-16", std::string("\xFF\xFE<\0?\0", 6), 1, "UTF-16"},
      {"text behind the end", Pair{}.text() + "\nthe end\n", 0, "\"the end\""},
      {"text before the beginning", "hosts:\n" + Pair{}.text(), 0, "outside the top element"},
      {"a comment before the declaration", "<!-- x -->\n" + Pair{}.text(), 2, "at the beginning"},
      {"another encoding", "<?xml version='1.0' encoding='latin-1'?>\n" + Pair{}.text().substr(22),
       1, "expected UTF-8"},
      {"Latin-1", with_host("<host id=\"b\xFCro\" speed=\"1Gf\"/>"), 5, "byte 252"},
      {"a reference to no character", with_host("<host id=\"a&#0;b\" speed=\"1Gf\"/>"), 5, "&#0;"},
      {"a reference to a surrogate", with_host("<host id=\"a&#xD800;\" speed=\"1Gf\"/>"), 5,
       "&#xD800;"},
      {"a reference to nothing", with_host("<host id=\"a&b\" speed=\"1Gf\"/>"), 5, "\"&b\""},
      {"an unknown entity", with_host("<host id=\"a&nbsp;b\" speed=\"1Gf\"/>"), 5, "&nbsp;"},
      {"no zone", doctype + "<platform version=\"4.1\"/>", 3, "no host"},
      {"two zones",
       doctype + "<platform version=\"4.1\">\n<zone id=\"a\" routing=\"Full\"/>\n<zone id=\"b\" "
                 "routing=\"Full\"/>\n</platform>",
       3, "no host"},
      {"zone in a zone", zone("<zone id=\"y\" routing=\"Full\"/>\n"), 3, "no host"},
      {"no version", doctype + "<platform><zone id=\"z\" routing=\"Full\"/></platform>", 3,
       "lacks attribute version"},
      {"unknown routing", Pair{}.text("Random"), 4, "expected DijkstraCache"},
      {"empty zone", zone(""), 4, "no <host>"},
      {"a cluster", zone("<cluster id=\"c\"/>\n"), 0, "SimGrid"},
      {"text between elements", zone("hosts:\n<host id=\"a\" speed=\"1Gf\"/>\n"), 4,
       "contains text"},
      {"host without id", with_host("<host speed=\"1Gf\"/>"), 5, "lacks attribute id"},
      {"host with empty id", with_host("<host id=\"\" speed=\"1Gf\"/>"), 5, "0 bytes"},
      {"host with a line break in its id", with_host("<host id=\"a&#10;b\" speed=\"1Gf\"/>"), 5,
       "character U+000A"},
      {"host with a comment in its id", zone("<host id=\"a#b\" speed=\"1Gf\"/>"), 0,
       "a name with a #"},
      {"host with a direction override",
       with_host("<host id=\"a\xE2\x80\xAE"
                 "b\" speed=\"1Gf\"/>"),
       5, "U+202E"},
      {"host with a zero-width space", with_host("<host id=\"a&#x200B;\" speed=\"1Gf\"/>"), 5,
       "U+200B"},
      {"host with a control sequence of C1", with_host("<host id=\"a&#155;31m\" speed=\"1Gf\"/>"),
       5, "U+009B"},
      {"host with a long id",
       with_host("<host id=\"" + std::string(300, 'a') + "\" speed=\"1Gf\"/>"), 5, "300 bytes"},
      {"host twice", with_host("<host id=\"b\" speed=\"1Gf\"/>"), 6, "unique ids"},
      {"host named as the zone", with_host("<host id=\"z\" speed=\"1Gf\"/>"), 5, "unique ids"},
      {"id twice", with_host("<host id=\"a\" id=\"c\" speed=\"1Gf\"/>"), 5, "twice"},
      {"speed without number", with_host("<host id=\"a\" speed=\"fast\"/>"), 5, "fast"},
      {"unknown unit of speed", with_host("<host id=\"a\" speed=\"1GB\"/>"), 5, "1GB"},
      {"speed 0", with_host("<host id=\"a\" speed=\"0f\"/>"), 5, "positive"},
      {"negative speed", with_host("<host id=\"a\" speed=\"-1Gf\"/>"), 5, "-1Gf"},
      {"infinite speed", with_host("<host id=\"a\" speed=\"inf\"/>"), 5, "inf"},
      {"speed not a number", with_host("<host id=\"a\" speed=\"nanf\"/>"), 5, "nan"},
      {"speed beyond double", with_host("<host id=\"a\" speed=\"1e999Gf\"/>"), 5, "1e999"},
      {"core 0", with_host("<host id=\"a\" speed=\"1Gf\" core=\"0\"/>"), 5, "core=\"0\""},
      {"core -1", with_host("<host id=\"a\" speed=\"1Gf\" core=\"-1\"/>"), 5, "core=\"-1\""},
      {"core 1.5", with_host("<host id=\"a\" speed=\"1Gf\" core=\"1.5\"/>"), 5, "core=\"1.5\""},
      {"core beyond bounds", with_host("<host id=\"a\" speed=\"1Gf\" core=\"99999999999999\"/>"), 5,
       "core="},
      {"changing speed", with_host("<host id=\"a\" speed=\"1Gf\" speed_file=\"no-such-speeds\"/>"),
       5, "speed_file"},
      {"unknown prop of ours", with_props("<prop id=\"tandem:memroy\" value=\"1GB\"/>"), 5,
       "tandem:memory"},
      {"prop of ours without its prefix", with_props("<prop id=\"slowdown\" value=\"2\"/>"), 5,
       "expected tandem:slowdown"},
      {"memory without unit", with_props("<prop id=\"tandem:memory\" value=\"8\"/>"), 5, "8"},
      {"memory 0", with_props("<prop id=\"tandem:memory\" value=\"0B\"/>"), 5, "positive"},
      {"memory in seconds", with_props("<prop id=\"tandem:memory\" value=\"8s\"/>"), 5, "8s"},
      {"memory bandwidth without unit",
       with_props("<prop id=\"tandem:memory_bandwidth\" value=\"1e10\"/>"), 5, "1e10"},
      {"memory twice",
       with_props("<prop id=\"tandem:memory\" value=\"8GB\"/><prop id=\"tandem:memory\" "
                  "value=\"4GB\"/>"),
       5, "twice"},
      {"slowdown 0", with_props("<prop id=\"tandem:slowdown\" value=\"0\"/>"), 5, "positive"},
      {"slowdown with unit", with_props("<prop id=\"tandem:slowdown\" value=\"2s\"/>"), 5, "2s"},
      {"processor without a name", with_props("<prop id=\"tandem:processor\" value=\"\"/>"), 5,
       "processor"},
      {"negative disk bandwidth",
       with_props("<prop id=\"tandem:disk_bandwidth\" value=\"-1MBps\"/>"), 5, "-1MBps"},
      {"prop without value", with_props("<prop id=\"tandem:memory\"/>"), 5,
       "lacks attribute value"},
      {"prop of ours in a link",
       with_link(
           "<link id=\"l\" bandwidth=\"1MBps\" latency=\"0s\" sharing_policy=\"SPLITDUPLEX\"><prop "
           "id=\"tandem:memory\" value=\"1GB\"/></link>"),
       7, "expected tandem:jitter"},
      {"two disks",
       with_props("<disk id=\"d\" read_bw=\"1MBps\" write_bw=\"1MBps\"/><disk id=\"d\" "
                  "read_bw=\"1MBps\" write_bw=\"1MBps\"/>"),
       5, "second disk"},
      {"disk against prop",
       with_props("<prop id=\"tandem:disk_bandwidth\" value=\"2MBps\"/><disk id=\"d\" "
                  "read_bw=\"1MBps\" write_bw=\"1MBps\"/>"),
       5, "expected one value"},
      {"disk without bandwidth", with_props("<disk id=\"d\"/>"), 5, "lacks attribute read_bw"},
      {"no latency", with_link("<link id=\"l\" bandwidth=\"1MBps\"/>"), 7,
       "lacks attribute latency"},
      {"bandwidth 0", with_link("<link id=\"l\" bandwidth=\"0Bps\" latency=\"1ms\"/>"), 7,
       "positive"},
      {"negative bandwidth", with_link("<link id=\"l\" bandwidth=\"-1MBps\" latency=\"0s\"/>"), 7,
       "-1MBps"},
      {"unknown unit of bandwidth", with_link("<link id=\"l\" bandwidth=\"1Mb\" latency=\"0s\"/>"),
       7, "1Mb"},
      {"negative latency", with_link("<link id=\"l\" bandwidth=\"1MBps\" latency=\"-1ms\"/>"), 7,
       "-1ms"},
      {"unknown sharing policy",
       with_link("<link id=\"l\" bandwidth=\"1MBps\" latency=\"0s\" sharing_policy=\"ANY\"/>"), 7,
       "SHARED"},
      {"link twice",
       with_link("<link id=\"l\" bandwidth=\"1MBps\" latency=\"0s\"/><link id=\"l\" "
                 "bandwidth=\"1MBps\" latency=\"0s\"/>"),
       7, "unique ids"},
      {"link named as a direction of another",
       with_link("<link id=\"l\" bandwidth=\"1MBps\" latency=\"0s\" "
                 "sharing_policy=\"SPLITDUPLEX\"/><link "
                 "id=\"l_UP\" bandwidth=\"1MBps\" latency=\"0s\"/>"),
       7, "l_UP"},
      {"route from nowhere", with_route("<route src=\"x\" dst=\"b\">" + first + "</route>"), 8,
       "src=\"x\""},
      {"route without dst", with_route("<route src=\"a\">" + first + "</route>"), 8,
       "lacks attribute dst"},
      {"route without links", with_route("<route src=\"a\" dst=\"b\"/>"), 8, "no link"},
      {"route over an unknown link",
       with_route("<route src=\"a\" dst=\"b\"><link_ctn id=\"x\"/></route>"), 8, "names no link"},
      {"route without direction",
       with_route("<route src=\"a\" dst=\"b\"><link_ctn id=\"l\"/></route>"), 8, "UP or DOWN"},
      {"direction on a shared link",
       Pair{.link = "<link id=\"l\" bandwidth=\"1MBps\" latency=\"0s\"/>"}.text(), 8,
       "not SPLITDUPLEX"},
      {"link twice on a route",
       with_route("<route src=\"a\" dst=\"b\">" + first + first + "</route>"), 8,
       "twice in one direction"},
      {"symmetrical maybe",
       with_route("<route src=\"a\" dst=\"b\" symmetrical=\"maybe\">" + first + "</route>"), 8,
       "YES or NO"},
      {"route twice",
       with_route("<route src=\"a\" dst=\"b\">" + first + "</route>\n<route src=\"b\" dst=\"a\">" +
                  first + "</route>"),
       9, "given twice"},
      {"no way back",
       with_route("<route src=\"a\" dst=\"b\" symmetrical=\"NO\">" + first + "</route>"), 6,
       "does not reach"},
      {"isolated host", with_route(""), 6, "not reached"},
      {"isolated router", with_host("<host id=\"a\" speed=\"1Gf\"/><router id=\"r\"/>"), 5,
       "not reached"},
      {"bypass route", with_route("<bypassRoute src=\"a\" dst=\"b\"/>"), 0, "SimGrid"},
      {"Full without a route",
       zone("<host id=\"a\" speed=\"1Gf\"/><host id=\"b\" speed=\"1Gf\"/><host id=\"c\" "
            "speed=\"1Gf\"/><link id=\"l\" bandwidth=\"1MBps\" latency=\"0s\"/><route src=\"a\" "
            "dst=\"b\"><link_ctn "
            "id=\"l\"/></route><route src=\"b\" dst=\"c\"><link_ctn id=\"l\"/></route>",
            "Full"),
       5, "no route from a to c"},
      {"a route to itself", with_route("<route src=\"a\" dst=\"a\">" + first + "</route>"), 8,
       "leads from a to itself"},
      {"Floyd for thousands", zone(many_hosts(2100), "Floyd"), 4, "set routing=\"DijkstraCache\""},
      {"a speed that no machine has", with_host("<host id=\"a\" speed=\"1e-300f\"/>"), 0,
       "flop_rate is 1e-300"},
      {"a bandwidth that no link has",
       with_link("<link id=\"l\" bandwidth=\"1e-300Bps\" latency=\"0s\" "
                 "sharing_policy=\"SPLITDUPLEX\"/>"),
       0, "bandwidth is 1e-300"},
      {"an endless latency",
       with_link(
           "<link id=\"l\" bandwidth=\"1Bps\" latency=\"1e300s\" sharing_policy=\"SPLITDUPLEX\"/>"),
       0, "latency is 1e+300"},
      {"a route of 1001 links", long_route(1001), 0, "1001 links, expected at most 1000"},
      {"text in a host", with_props("fast"), 5, "contains text"},
      {"text in a link", with_link("<link id=\"l\" bandwidth=\"1MBps\" latency=\"0s\">x</link>"), 7,
       "contains text"},
      {"CDATA in a zone", zone("<![CDATA[ ]]><host id=\"a\" speed=\"1Gf\"/>\n"), 4,
       "contains text"},
      {"trace with an unknown attribute", with_trace("period=\"3\"", "1 0.5"), 9, "period"},
      {"trace with elements", with_trace("", "1 0.5<prop id=\"a\" value=\"b\"/>"), 9,
       "not supported"},
      {"trace that repeats", traced("4", "1 0.5"), 9, "periodicity=\"4\", expected -1"},
      {"trace with period 0", traced("0", "1 0.5"), 9, "periodicity=\"0\""},
      {"trace with period nan", traced("nan", "1 0.5"), 9, "periodicity=\"nan\""},
      {"trace with period -inf", traced("-inf", "1 0.5"), 9, "periodicity=\"-inf\""},
      {"trace with a word behind a comment", with_trace("", "1 0.5 <!-- --> often"), 9, "1 0.5"},
      // What only SimGrid finds.
      {"an old version",
       [] {
         std::string text = Pair{}.text();
         return text.replace(text.find("4.1"), 3, "3.0");
       }(),
       0, "SimGrid"},
      {"routes before hosts",
       zone("<link id=\"l\" bandwidth=\"1MBps\" latency=\"0s\"/><route src=\"a\" "
            "dst=\"b\"><link_ctn "
            "id=\"l\"/></route><host id=\"a\" speed=\"1Gf\"/><host id=\"b\" speed=\"1Gf\"/>"),
       0, "SimGrid"}};
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "<zone id=\"z\" routing=\"Full\">";
  files.push_back({"deep", doctype + "<platform version=\"4.1\">" + deep, 3, "well-formed"});
  std::string closed = deep;
  for (int i = 0; i < 100000; ++i) closed += "</zone>";
  files.push_back({"deep and closed",
                   doctype + "<platform version=\"4.1\">" + closed + "</platform>", 3,
                   "nested deeper"});
  files.push_back({"too many hosts", zone(many_hosts(9000)), 5 + 8192, "too many"});
  return files;
}

}  // namespace

TEST_CASE("sim/platform: each of more than 70 bad files is one line naming file, line and remedy") {
  const std::vector<Bad> files = bad_files();
  CHECK(files.size() > 70);
  for (const Bad& bad : files) {
    CAPTURE(bad.name);
    const TemporaryFile file(bad.text);
    const std::string error = error_of(file.path());
    CAPTURE(error);
    const std::string place =
        file.path() + ":" + (bad.line > 0 ? std::to_string(bad.line) + ": " : "");
    CHECK(error.substr(0, place.size()) == place);
    CHECK(error.find(bad.said) != std::string::npos);
    CHECK(error.find('\n') == std::string::npos);
    CHECK(error.size() < 1500);
  }
}

TEST_CASE("sim/platform: what is no regular file of reasonable size is refused") {
  CHECK(error_of("/nonexistent/p.xml").find("no such file") != std::string::npos);
  CHECK(error_of("").find("no such file") != std::string::npos);
  CHECK(error_of("/tmp").find("not a regular file") != std::string::npos);
  CHECK(error_of("/dev/zero").find("not a regular file") != std::string::npos);
  const TemporaryFile large(std::string((std::size_t{16} << 20) + 1, ' '));
  CHECK(error_of(large.path()).find("at most") != std::string::npos);
}

TEST_CASE("sim/platform: a file is never loaded as a library") {
  // SimGrid opens names that end in .so with dlopen.
  const TemporaryFile file(Pair{}.text(), ".so");
  CHECK(error_of(file.path()) == "none");
}

TEST_CASE("sim/platform: what a file says is what the cluster has") {
  const TemporaryFile file(Pair{.a = "<host id=\"a\" speed=\"1.5Gf\" core=\"4\">"
                                     "<prop id=\"tandem:memory\" value=\"2GiB\"/>"
                                     "<prop id=\"tandem:memory_bandwidth\" value=\"20GBps\"/>"
                                     "<prop id=\"tandem:disk_bandwidth\" value=\"200MBps\"/>"
                                     "<prop id=\"tandem:slowdown\" value=\"2.5\"/>"
                                     "<prop id=\"tandem:processor\" value=\"Some 3000\"/>"
                                     "<prop id=\"vendor\" value=\"any\"/></host>"}
                               .text());
  const Platform platform = read_platform(file.path());
  CHECK(platform.cluster.name() == "z");
  CHECK(platform.cluster.size() == 2);
  const model::Device& a = platform.cluster.devices()[0];
  CHECK(a.name == "a");
  CHECK(a.cores == 4);
  CHECK(a.flop_rate.value() == doctest::Approx(6e9));
  CHECK(a.memory.value() == 2.0 * 1024 * 1024 * 1024);
  CHECK(a.memory_bandwidth.value() == doctest::Approx(20e9));
  CHECK(a.disk_bandwidth.value() == doctest::Approx(200e6));
  CHECK(a.slowdown == 2.5);
  CHECK(platform.processors == std::map<std::string, std::string>{{"a", "Some 3000"}});
  const model::Device& b = platform.cluster.devices()[1];
  CHECK(b.memory.value() == 8.0 * 1024 * 1024 * 1024);
  CHECK(b.disk_bandwidth.value() == 0.0);
  CHECK(platform.defaults.size() == 4);
  for (const std::string& line : platform.defaults) {
    CAPTURE(line);
    CHECK(line.substr(line.size() - 1) == "b");
  }
  const model::Route& route = platform.cluster.route(1, 0);
  CHECK(route.latency.value() == doctest::Approx(1e-3));
  CHECK(route.bandwidth.value() == doctest::Approx(12.5e6));
  CHECK(route.hops.at(0).direction == model::Direction::down);
}

TEST_CASE("sim/platform: comments and CDATA split text without cutting it") {
  for (const char* lines : {"30 0.5\n90 1\n", "<!-- slow -->30 0.5\n<!-- fast again -->\n90 1",
                            "30 0.5<!-- -->\n<!-- -->90 1", "30 0.5<?note x?>\n90 1",
                            "<![CDATA[30 0.5\n]]>90 1", "3<!-- -->0 0.5\n90 1"}) {
    CAPTURE(lines);
    const TemporaryFile file(with_trace("", lines));
    const model::Cluster cluster = read_platform(file.path()).cluster;
    const std::vector<model::SpeedChange>& speeds = cluster.devices()[0].speeds;
    REQUIRE(speeds.size() == 2);
    CHECK(speeds[0].at.value() == 30.0);
    CHECK(speeds[0].factor == 0.5);
    CHECK(speeds[1].at.value() == 90.0);
    CHECK(speeds[1].factor == 1.0);
  }
}

TEST_CASE("sim/platform: a route to itself is SimGrid's loopback where SimGrid takes it") {
  const Pair pair;
  const std::string loop =
      "<route src=\"a\" dst=\"a\" symmetrical=\"NO\"><link_ctn id=\"m\"/></route>";
  const std::string link = "<link id=\"m\" bandwidth=\"1MBps\" latency=\"0s\"/>";
  for (const char* routing : {"Full", "Dijkstra", "DijkstraCache", "Floyd"}) {
    CAPTURE(routing);
    const TemporaryFile file(zone(pair.a + pair.b + pair.link + link + loop + pair.route, routing));
    CHECK(error_of(file.path()) == "none");
  }
}

TEST_CASE("sim/platform: names in all of the world's letters are kept apart") {
  const TemporaryFile file(
      zone("<host id=\"b\u00FCro\" speed=\"1Gf\"/><host id=\"b\u00E4ro\" speed=\"1Gf\"/>"
           "<link id=\"\u7DDA\" bandwidth=\"1MBps\" latency=\"0s\"/>"
           "<route src=\"b\u00FCro\" dst=\"b\u00E4ro\"><link_ctn id=\"\u7DDA\"/></route>"));
  CHECK(error_of(file.path()) == "none");
}

TEST_CASE("sim/platform: a share limits memory and cores, and an option replaces the file's") {
  Pair pair;
  const std::string open =
      "<host id=\"b\" speed=\"2Gf\" core=\"4\">"
      "<prop id=\"tandem:memory\" value=\"4GB\"/>";
  pair.b = open + "</host>";
  const model::Cluster whole = read_platform(TemporaryFile(pair.text()).path()).cluster;
  const auto with = [&](const std::string& share) {
    Pair capped = pair;
    capped.b = open + "<prop id=\"tandem:share\" value=\"" + share + "\"/></host>";
    return capped.text();
  };
  const TemporaryFile half(with("0.5"));
  const Platform read = read_platform(half.path());
  const model::Device& b = read.cluster.devices()[1];
  CHECK(b.memory.value() == 2e9);
  CHECK(b.cores == 2);
  CHECK(b.flop_rate.value() == 4e9);
  CHECK(b.memory_bandwidth.value() == doctest::Approx(5e9));
  CHECK(read.cluster.devices()[0] == whole.devices()[0]);
  CHECK(read.shares.at("b") == model::DeviceShare{.share = 0.5, .cores = 4});
  REQUIRE(read.uncapped);
  CHECK(*read.uncapped == whole);
  SUBCASE("the option wins, and 1 changes nothing") {
    const Platform quarter = read_platform(half.path(), {.shares = {{"b", 0.25}}});
    CHECK(quarter.cluster.devices()[1].memory.value() == 1e9);
    const Platform all = read_platform(half.path(), {.shares = {{"b", 1.0}}});
    CHECK(all.cluster == whole);
    CHECK(all.shares.empty());
    CHECK_FALSE(all.uncapped);
  }
  SUBCASE("out of range, unknown hosts and links are refused by name") {
    for (const char* const share : {"0", "1.5", "-1", "50%", "half"}) {
      CAPTURE(share);
      const TemporaryFile odd(with(share), "_odd.xml");
      const std::string error = error_of(odd.path());
      CHECK(error.find("host b") != std::string::npos);
      CHECK(error.find(share) != std::string::npos);
      CHECK(error.find("above 0 and at most 1") != std::string::npos);
    }
    try {
      static_cast<void>(read_platform(half.path(), {.shares = {{"c", 0.5}}}));
      FAIL("a share of no host");
    } catch (const Error& error) {
      CHECK(std::string(error.what()).find("'c'") != std::string::npos);
    }
  }
}

}  // namespace tandem::sim::platform_test
