#include "exec/session/worker.hpp"

#include <algorithm>
#include <tandem/worker.hpp>
#include <thread>
#include <utility>

#include "exec/transport/endpoint.hpp"
#include "exec/transport/key.hpp"
#include "exec/weights/store/block_store.hpp"
#include "model/base/error.hpp"

namespace tandem {

void serve(const WorkerOptions& options) {
  exec::WorkerOptions how;
  if (!options.key_file.empty()) how.key = exec::read_key_file(options.key_file);
  how.cache_dir = options.cache_dir.empty() ? exec::default_cache_dir() : options.cache_dir;
  exec::need_cache_dir(how.cache_dir);
  how.threads = options.threads > 0
                    ? options.threads
                    : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  how.once = options.once;
  how.verbose = true;
  how.log = [&](const std::string& line) {
    if (options.on_log) options.on_log(line);
  };
  exec::ListenSocket socket(exec::parse_endpoint(options.listen, "WorkerOptions::listen", true),
                            how.key.has_value());
  if (options.on_listening) options.on_listening(to_text(socket.endpoint()));
  exec::Cancellation cancellation;
  const std::stop_callback stopping(options.stop, [&] { cancellation.cancel("stopped"); });
  try {
    exec::serve(std::move(socket), how, cancellation);
  } catch (const Error&) {
    if (!options.stop.stop_requested()) throw;
  }
}

void write_key(const std::filesystem::path& file) { exec::generate_key_file(file); }

}  // namespace tandem
