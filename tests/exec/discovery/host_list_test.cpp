// Lists of workers: what is accepted, and what of it cannot be.

#include "exec/discovery/host_list.hpp"

#include <doctest/doctest.h>

#include <string>

#include "model/base/error.hpp"

namespace tandem::test::host_list_test {

using namespace tandem::exec;

namespace {

std::string fault_of(const std::string& text) {
  try {
    static_cast<void>(parse_host_list(text, "home.txt"));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("discovery/host list: names are optional, this machine is local, # begins a comment") {
  const auto hosts = parse_host_list(
      "# home\n192.168.1.7:7700\nboard 10.0.0.3:7701  # in the kitchen\n\ndesk local\n[::1]:7700\n",
      "home.txt");
  REQUIRE(hosts.size() == 4);
  CHECK(hosts[0].name.empty());
  CHECK(hosts[0].endpoint == Endpoint{.host = "192.168.1.7", .port = 7700});
  CHECK(hosts[1].name == "board");
  CHECK(hosts[1].endpoint.port == 7701);
  CHECK(hosts[2].local);
  CHECK(hosts[2].name == "desk");
  CHECK(hosts[3].endpoint.host == "::1");
}

TEST_CASE("discovery/host list: each fault names its line, what it is and what was expected") {
  const auto has = [](const std::string& text, const std::string& part) {
    CAPTURE(text);
    const std::string fault = fault_of(text);
    CAPTURE(fault);
    CHECK(fault.find(part) != std::string::npos);
  };
  has("", "home.txt: has no line");
  has("# only this\n", "home.txt: has no line");
  has("a b c\n", "home.txt:1: 'a b c', expected '[device-name] host:port'");
  has("local\n", "home.txt:1: 'local', expected");
  has("desk\n", "home.txt:1: 'desk' has no port");
  has("desk 10.0.0.1:0\n", "has no port from 1 to 65535");
  has("a 10.0.0.1:7700\na 10.0.0.2:7700\n", "home.txt:2: device name 'a' is in line 1 already");
  has("A 10.0.0.1:7700\na 10.0.0.2:7700\n", "home.txt:2: device name 'a' is in line 1 already");
  has("a Desk:7700\nb desk:7700\n", "home.txt:2: address desk:7700 is in line 1 already");
  has("a local\nb local\n", "home.txt:2: this machine is in line 1 already");
  has("a/b 10.0.0.1:7700\n", "home.txt:1: device name 'a/b', expected up to 60 letters");
  has("../x 10.0.0.1:7700\n", "home.txt:1: device name '../x'");
  std::string many;
  for (int i = 0; i < 16; ++i) many += "10.0.0." + std::to_string(i) + ":7700\n";
  has(many, "16 workers, expected at most 15");
}

TEST_CASE("discovery/host list: a host's own name becomes a device's") {
  CHECK(device_name("raspberrypi") == "raspberrypi");
  CHECK(device_name("Anna's laptop") == "Anna-s-laptop");
  CHECK(device_name("../../etc") == "etc");
  CHECK(device_name("") == "device");
  CHECK(device_name("<&>") == "device");
}

}  // namespace tandem::test::host_list_test
