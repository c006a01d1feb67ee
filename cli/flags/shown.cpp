#include "cli/flags/shown.hpp"

#include "cli/files/files.hpp"

namespace tandem::cli {

void refuse_json_with_quiet(const Options& options) {
  if (options.has("json") && options.has("quiet"))
    throw Usage("flags '--json' and '--quiet' contradict each other; give one");
}

Shown shown(const Options& options) {
  Shown result{
      .file = options.text("out"), .json = options.has("json"), .quiet = options.has("quiet")};
  refuse_json_with_quiet(options);
  if (result.file == "-") {
    result.file.reset();
    result.to_output = true;
    options.accept_idle({"json", "quiet"}, "with '--out -', which prints the result itself");
  }
  return result;
}

void deliver(const Shown& shown, const std::string& text, std::ostream& out) {
  if (shown.file) write_file(*shown.file, text);
  if (shown.to_output) out << text;
}

}  // namespace tandem::cli
