#include "sim/platform/profiles.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>

#include "model/base/limits.hpp"
#include "model/base/plain_text.hpp"
#include "sim/platform/xml_values.hpp"

namespace tandem::sim {
namespace {

using pugi::xml_node;

constexpr std::uintmax_t kMostProfileBytes = std::uintmax_t{1} << 20U;
constexpr std::array<const char*, 5> kProfileAttributes{
    "speed_file", "bandwidth_file", "latency_file", "availability_file", "state_file"};

// The elements of a kind, wherever in the document they are.
std::vector<xml_node> elements(const XmlDocument& document, const std::string& name) {
  std::vector<xml_node> found;
  for (const xml_node node : document.elements()) {
    if (name == node.name()) found.push_back(node);
  }
  return found;
}

std::string without_blanks(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  return first == std::string::npos
             ? std::string()
             : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

enum class Kind { speed, bandwidth, latency };

// A change's target: a link, and a direction of it.
struct Target {
  model::Link* link = nullptr;
  model::Direction direction = model::Direction::none;
};

// SimGrid calls the directions of a split-duplex link x x_UP and x_DOWN; they may be links of their
// own. `both`: `name` is such an x, and means the two.
std::vector<Target> links_named(std::vector<model::Link>& links, const std::string& name,
                                bool both) {
  using model::Direction;
  std::vector<Target> targets;
  const auto is_meant = [&](const std::string& link) {
    return both ? link == name + "_UP" || link == name + "_DOWN" : link == name;
  };
  for (model::Link& link : links) {
    if (link.sharing != model::Sharing::split_duplex) {
      if (is_meant(link.name)) targets.push_back({&link, Direction::none});
      continue;
    }
    if (is_meant(link.name + "_UP")) targets.push_back({&link, Direction::up});
    if (is_meant(link.name + "_DOWN")) targets.push_back({&link, Direction::down});
  }
  return targets;
}

model::LinkChange change_of(Kind kind, double time, double value, model::Direction direction) {
  model::LinkChange change{.at = model::Seconds{time}, .direction = direction};
  if (kind == Kind::bandwidth) {
    change.bandwidth = model::BytesPerSecond{value};
  } else {
    change.latency = model::Seconds{value};
  }
  return change;
}

}  // namespace

Profiles::Profiles(const XmlDocument& document, std::string folder)
    : document_(&document), folder_(std::move(folder)) {
  for (const xml_node node : elements(document, "trace")) {
    const bool in_file = !node.attribute("file").empty();
    document.expect(node, {"id"}, {"periodicity", "file"}, {}, true);
    const std::string name = read_id(document, node);
    const auto attribute = node.attribute("periodicity");
    const auto periodicity = bare_number(attribute ? attribute.value() : "-1");
    if (!periodicity || *periodicity != -1.0) {
      document.fail(
          node, "has periodicity=\"" + std::string(attribute.value()).substr(0, 40) +
                    "\", expected -1, as profiles that repeat are not read; write out all of it");
    }
    Profile profile = in_file ? read(node, "file") : parse(node, document.text(node));
    if (!traces_.emplace(name, std::move(profile)).second)
      document.fail(node, "is given twice, expected unique ids; rename one");
  }
}

// Reads the file that `attribute` of `node` names.
Profiles::Profile Profiles::read(xml_node node, const char* attribute) const {
  const std::string name = node.attribute(attribute).value();
  const std::filesystem::path path = std::filesystem::path(folder_) / name;
  std::error_code error;
  const bool regular = std::filesystem::is_regular_file(path, error);
  const std::uintmax_t size = regular ? std::filesystem::file_size(path, error) : 0;
  const std::string subject =
      std::string("has ") + attribute + "=\"" + model::one_line(name, 120) + "\", ";
  if (!regular)
    document_->fail(node, subject + "expected a file beside the platform file, none is at " +
                              model::one_line(path.string(), 300) + "; correct the path");
  if (size > kMostProfileBytes)
    document_->fail(node, subject + "a file of " + std::to_string(size) +
                              " bytes, expected at most " + std::to_string(kMostProfileBytes) +
                              "; is it a profile?");
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(size), '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(size)))
    document_->fail(node, subject + "which cannot be read; check its permissions");
  return parse(node, text);
}

// Parses "TIME VALUE" lines.
Profiles::Profile Profiles::parse(xml_node node, const std::string& given) const {
  Profile profile;
  std::istringstream text(given);
  std::string line;
  while (std::getline(text, line)) {
    line = without_blanks(line);
    if (line.empty() || line.front() == '#' || line.front() == '%') continue;
    std::istringstream words(line);
    std::string time;
    std::string value;
    std::string more;
    words >> time >> value;
    if (time == "PERIODICITY" || time == "LOOPAFTER" || time == "STOCHASTIC") {
      if (time != "STOCHASTIC" && bare_number(value) == -1.0) continue;
      document_->fail(node, "has a profile with the line \"" + model::one_line(line, 60) +
                                "\", expected changes that neither repeat nor are random; write "
                                "all of them out");
    }
    const auto when = bare_number(time);
    const auto what = bare_number(value);
    if (!when || !what || (words >> more) || !(*when >= 0.0) ||
        (!profile.empty() && *when <= profile.back().first) ||
        profile.size() >= model::limits::kChanges) {
      document_->fail(node, "has the line \"" + model::one_line(line, 60) +
                                "\", expected two numbers, \"SECONDS VALUE\", the times ascending, "
                                "10000 at most; mend it");
    }
    profile.emplace_back(*when, *what);
  }
  if (profile.empty())
    document_->fail(node, "is empty, expected \"SECONDS VALUE\" lines; add some");
  return profile;
}

void Profiles::connect(std::vector<model::Device>& devices, std::vector<model::Link>& links,
                       const Others& others) const {
  std::set<std::pair<Kind, std::string>> connected;
  const auto require_once = [&](xml_node node, Kind kind, const std::string& element) {
    if (!connected.emplace(kind, element).second)
      document_->fail(node,
                      "gives " + element + " a second trace of a kind, expected one; join them");
  };
  const auto apply_speed = [&](xml_node node, const std::string& element, const Profile& profile) {
    require_once(node, Kind::speed, element);
    const auto device = std::ranges::find(devices, element, &model::Device::name);
    if (device == devices.end()) {
      if (others.host && others.host(element)) return;
      document_->fail(node, "names no host of the zone, expected one; correct its element");
    }
    for (const auto& [time, factor] : profile)
      device->speeds.push_back({model::Seconds{time}, factor});
  };
  const auto apply = [&](xml_node node, Kind kind, const std::string& element, bool both,
                         const Profile& profile) {
    require_once(node, kind, element);
    const std::vector<Target> targets = links_named(links, element, both);
    if (targets.empty()) {
      if (others.link && others.link(both ? element + "_UP" : element)) return;
      document_->fail(
          node,
          "names no link of the zone, expected one, with _UP or _DOWN behind it if it is "
          "SPLITDUPLEX, as a cluster's links are; correct its element");
    }
    for (const Target& target : targets) {
      for (const auto& [time, value] : profile)
        target.link->changes.push_back(change_of(kind, time, value, target.direction));
    }
  };
  const auto refuse_state = [&](xml_node node, const char* what) {
    if (node.attribute(what))
      document_->fail(node, std::string("has attribute ") + what +
                                ": nothing fails in tandem; remove it to plan without failures");
  };
  for (const xml_node node : document_->elements()) {
    const std::string_view name = node.name();
    for (const char* attribute : {"state_file", "availability_file"}) refuse_state(node, attribute);
    const std::string id = node.attribute("id").value();
    if (name == "host" && node.attribute("speed_file"))
      apply_speed(node, id, read(node, "speed_file"));
    if (name == "link" && node.attribute("bandwidth_file"))
      apply(node, Kind::bandwidth, id, is_split_duplex(node), read(node, "bandwidth_file"));
    if (name == "link" && node.attribute("latency_file"))
      apply(node, Kind::latency, id, is_split_duplex(node), read(node, "latency_file"));
    if (name == "peer" && node.attribute("speed_file"))
      apply_speed(node, id, read(node, "speed_file"));
  }
  for (const xml_node node : elements(*document_, "trace_connect")) {
    document_->expect(node, {"trace", "element"}, {"kind"}, {});
    const auto trace = traces_.find(node.attribute("trace").value());
    if (trace == traces_.end())
      document_->fail(node, "names no trace of the zone, expected one; add or correct it");
    const auto attribute = node.attribute("kind");
    const std::string_view kind = attribute ? attribute.value() : "HOST_AVAIL";
    const std::string element = node.attribute("element").value();
    if (kind == "SPEED") {
      apply_speed(node, element, trace->second);
    } else if (kind == "BANDWIDTH" || kind == "LATENCY") {
      apply(node, kind == "BANDWIDTH" ? Kind::bandwidth : Kind::latency, element, false,
            trace->second);
    } else {
      document_->fail(node, "has kind=\"" + std::string(kind.substr(0, 40)) +
                                "\", expected SPEED, BANDWIDTH or LATENCY; nothing fails in "
                                "tandem");
    }
  }
  for (model::Link& link : links) {
    std::stable_sort(
        link.changes.begin(), link.changes.end(),
        [](const model::LinkChange& a, const model::LinkChange& b) { return a.at < b.at; });
  }
}

namespace {

// Overwrites [from, to) with blanks, but for line ends.
void blank(std::string& text, std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < std::min(to, text.size()); ++i) {
    if (text[i] != '\n' && text[i] != '\r') text[i] = ' ';
  }
}

// Returns the position behind the start tag that begins at `from`; quoted ">" do not end it.
std::size_t end_of_tag(const std::string& text, std::size_t from) {
  char quote = 0;
  for (std::size_t i = from; i < text.size(); ++i) {
    if (quote != 0) {
      if (text[i] == quote) quote = 0;
    } else if (text[i] == '"' || text[i] == '\'') {
      quote = text[i];
    } else if (text[i] == '>') {
      return i + 1;
    }
  }
  return text.size();
}

void hide_element(std::string& text, std::size_t name_at, const std::string& name) {
  const std::size_t tag_end = end_of_tag(text, name_at);
  std::size_t end = tag_end;
  if (tag_end < 2 || text[tag_end - 2] != '/') {
    const std::size_t closing = text.find("</" + name, tag_end);
    end = closing == std::string::npos ? tag_end : end_of_tag(text, closing);
  }
  blank(text, name_at - 1, end);
}

void hide_attribute(std::string& text, std::size_t name_at, const std::string& name) {
  const std::size_t end = end_of_tag(text, name_at);
  char quote = 0;
  for (std::size_t i = name_at; i + name.size() < end; ++i) {
    if (quote != 0) {
      if (text[i] == quote) quote = 0;
      continue;
    }
    if (text[i] == '"' || text[i] == '\'') quote = text[i];
    if (text.compare(i, name.size(), name) != 0 || text[i - 1] > ' ') continue;
    const std::size_t equals = text.find_first_not_of(" \t\r\n", i + name.size());
    if (equals >= end || text[equals] != '=') continue;
    const std::size_t open = text.find_first_of("\"'", equals);
    const std::size_t close = text.find(text[open], open + 1);
    blank(text, i, close + 1);
    return;
  }
}

}  // namespace

std::string hidden_from_simgrid(const XmlDocument& document, std::string_view text) {
  std::string hidden(text);
  for (const xml_node node : document.elements()) {
    const std::string name = node.name();
    const auto name_at = static_cast<std::size_t>(node.offset_debug());
    for (const char* attribute : kProfileAttributes) {
      if (node.attribute(attribute)) hide_attribute(hidden, name_at, attribute);
    }
    if (name == "config" || name == "trace" || name == "trace_connect")
      hide_element(hidden, name_at, name);
  }
  return hidden;
}

}  // namespace tandem::sim
