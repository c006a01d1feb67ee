// tandem profile: measures this machine's speed by task kind.

#include "exec/profile.hpp"

#include <algorithm>
#include <iostream>
#include <ostream>
#include <thread>

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/models.hpp"
#include "cli/options.hpp"
#include "cli/table.hpp"
#include "model/quantity_text.hpp"

namespace tandem::cli {
namespace {

void print_profile(const model::DeviceProfile& profile, std::ostream& out) {
  out << profile.source << "\nidle process " << to_text(model::Bytes{profile.program_bytes})
      << "\n\n";
  Table table({"task", "overhead", "rows alike", "streamed"});
  for (std::size_t k = 0; k < profile.rate.size(); ++k) {
    const model::KindRate& rate = profile.rate[k];
    std::string name(model::to_string(static_cast<model::TaskKind>(k)));
    std::string overhead = to_text(model::Seconds{rate.overhead_s});
    for (const model::RatePoint& point : rate.points) {
      if (point.seconds_per_byte <= 0.0) continue;
      table.add({name, overhead, fixed(point.reuse, point.reuse < 10.0 ? 1 : 0),
                 to_text(model::BytesPerSecond{1.0 / point.seconds_per_byte})});
      name.clear();
      overhead.clear();
    }
  }
  table.print(out);
}

}  // namespace

int profile_command(const Arguments& arguments, std::ostream& out) {
  const Options options(
      {.command = "profile",
       .summary =
           "Measures what one byte of weights, cache or message costs this machine, by kind of\n"
           "task, for 'tandem plan --profile'. Run it on an otherwise idle machine.",
       .positionals = {},
       .flags = {{"model", "M", "matrices of this model's sizes [tinyllama-1.1b]"},
                 {"threads", "N", "threads of a task [1]"},
                 {"seconds", "S", "about how long to measure [20]"},
                 {"out", "FILE", "write the profile"},
                 {"json", "", "print the profile as JSON"},
                 {"quiet", "", "print no table"}}},
      arguments);
  if (options.has("json") && options.has("quiet"))
    throw Usage("flags '--json' and '--quiet' contradict each other; give one");
  const std::optional<std::string> path = options.text("out");
  if (!path && options.has("quiet"))
    throw Usage("flag '--quiet' without '--out' leaves no result; give '--out FILE'");
  exec::ProfileOptions measure;
  const auto cores = std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  measure.threads = static_cast<int>(options.integer_or("threads", 1, 1, cores));
  measure.seconds = options.number_or("seconds", measure.seconds, 0.1, 3600.0);
  const model::Transformer shape = load_model(options.text_or("model", "tinyllama-1.1b"));
  if (path) check_writable(*path);

  const model::DeviceProfile profile = exec::measure_profile(shape, measure);
  if (path) write_file(*path, to_json(profile));
  if (options.has("json")) {
    out << to_json(profile);
  } else if (!options.has("quiet")) {
    print_profile(profile, out);
  }
  return 0;
}

}  // namespace tandem::cli
